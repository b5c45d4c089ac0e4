"""HTTP extenders of a policy.

extender_calls         calls extenders between popping a pod and deciding on it, without delaying other pods
extender_round         all calls of one attempt, in kube-scheduler's order
extender_preemption    calls extenders about victims
extender_protocol      the JSON of kube-scheduler's extender API
"""
