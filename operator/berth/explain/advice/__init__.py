"""Advice: the smallest changes to a pod or a node after which the pod fits, each tried by the engine.

edits          a changed pod or node, in place for the length of a trial
pod_changes    what may be changed about a pod, by the code of the reason
requests       the largest requests that fit
node_changes   what may be changed about a node, and a new node
labels         the labels that a node would need
priorities     the priority with which preemption would make room
searching      which changes are tried, in which order, and which are said
"""

from berth.explain.advice.searching import advise

__all__ = ["advise"]
