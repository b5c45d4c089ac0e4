"""HTTP extenders of a policy.

extender_calls         asks them between two looks at a pod, without holding up other pods
extender_round         everything that is asked in one attempt, in kube-scheduler's order
extender_preemption    what they say about victims
extender_protocol      the JSON of kube-scheduler's extender API
"""
