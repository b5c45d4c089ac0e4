"""What unschedulable pods wait for, indexed so that one event quickly finds the pods that it may help.

demand    their resource requests, as columns: one row per kind of pod
marks     labels, namespaces and claims that an event must have to make them schedulable
"""
