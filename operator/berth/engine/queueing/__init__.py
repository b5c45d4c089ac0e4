"""What unschedulable pods wait for, in a form that one event can be compared with quickly.

demand    what they ask for, as columns: one row a kind of pod
marks     labels, namespaces and claims that an event must show to help them
"""
