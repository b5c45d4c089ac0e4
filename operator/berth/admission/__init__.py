"""The validating webhook: says at `kubectl apply` what the status of a SchedulingPolicy would say after it.

    what is asked and answered, as JSON                     reviews
    where it listens, and how much time it may take         endpoint

It decides nothing that matters to pods: if it is away, policies are stored as they are, and the status tells.
"""
