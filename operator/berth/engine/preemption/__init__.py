"""Preemption (DefaultPreemption): which victims to evict so that a pod fits, and on which node. It evicts nothing.

preemption    the choice of a node, and the message if there is none
victims       the search for victims, on all nodes at once where only resources matter
"""
