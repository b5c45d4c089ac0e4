"""What several plugins share.

allocation, strategies         how full nodes are, and how that scores
spreading, default_spreading   pods over the domains of a label
volume_matching                the free volume that each claim would get
hints                          looks at the object that changed, for queueing hints
"""
