"""The scheduling queue: the pods that wait for a node, and when each of them is tried next.

queue              Queue: active, backoff, unschedulable, gated
queued_pod         a pod in the queue, and the parts of the queue
sorting, heap      the order of the pods
unschedulable      unschedulable pods, indexed by the events that may help them
queueing_hints     asks the plugins that rejected a pod whether an event may help
openings           limits the pods that an event moves back to the number that it can help
change_log         the latest events, for attempts that began before them
queue_reasons, queue_counters      for metrics
"""
