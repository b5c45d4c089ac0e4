"""Cached answers of plugins: shared by pods with equal signatures, recomputed only where something changed.

cache          the answers for one pod signature on all nodes: built once, then refreshed
entries        the cached answers of one plugin
ranking        the nodes with the highest total score
equivalence    groups of nodes that get equal scores, scored once per group
"""
