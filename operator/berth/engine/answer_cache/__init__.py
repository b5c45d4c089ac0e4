"""Answers of plugins, kept for pods that are alike and recomputed only where something changed.

cache          the answers about one kind of pod, on all nodes: built once, then refreshed
entries        what is kept of each plugin
ranking        the nodes with the highest total
equivalence    nodes that score alike, scored once
"""
