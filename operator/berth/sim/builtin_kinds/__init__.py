"""The API server's rules for the built-in kinds: functions on bodies, in the order in which a write meets them.

type_checks   a field where an object, a list or a text is expected has that type
defaults      the defaults of a kind, and the status of a new object
admission     priority, tolerations, default storage class, addresses of services
validation    names, labels, and the rules that clients rely on
pods          binding, eviction under budgets, graceful deletion
"""
