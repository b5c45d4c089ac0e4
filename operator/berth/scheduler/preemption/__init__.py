"""Preemption: carries out what the engine has chosen.

preempting     PostFilter: preempts for a pod that fits on no node
evicting       evicts the victims in the background
nominating     nominates the preemptor, in memory at once and in the API soon
disruptions    our evictions, counted against disruption budgets until their status includes them
"""
