"""The oracle: random cases, and what the real kube-scheduler's code says of them (README.md one folder up)."""
