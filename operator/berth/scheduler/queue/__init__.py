"""The pods that wait for a node, and when each of them is tried next.

queue              Queue: active, backing off, unschedulable, gated
queued_pod         a pod in the queue, and the parts that it can be in
sorting, heap      which pod is tried first
unschedulable      unschedulable pods, by what may help them
queueing_hints     asks the plugins that rejected a pod whether an event helps
openings           as many pods are tried as an event can help
change_log         the last events, for attempts that had begun before them
queue_reasons, queue_counters      for metrics
"""
