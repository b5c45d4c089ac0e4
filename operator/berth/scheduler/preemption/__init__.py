"""Preemption carried out.

preempting     decides for a pod that fits nowhere, and starts what follows
evicting       evicts the victims in the background
nominating     nominates the preemptor, in memory at once and in the API soon
disruptions    our evictions, counted against budgets until their status does
"""
