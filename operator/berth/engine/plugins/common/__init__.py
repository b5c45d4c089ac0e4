"""Code that several plugins share.

allocation, strategies         how full nodes are, and the scores for that
spreading, default_spreading   pods per topology domain, for spread constraints
volume_matching                the available volume that each unbound claim would get
hints                          checks of the object that changed, for queueing hints
"""
