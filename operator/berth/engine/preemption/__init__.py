"""Which pods of lower priority would have to go so that a pod fits, and on which node. It decides and evicts nobody.

preemption    the choice of a node, and what is said if there is none
victims       the search for victims, on all nodes at once where only resources matter
"""
