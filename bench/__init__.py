"""Benchmarks. `make bench` runs them all.

engine      how long one decision takes, by what the pod asks for and by the size of the cluster
rollouts    whether it stays so, and memory too, when many Deployments are rolled out again and again
cluster     Berth beside kube-scheduler on a real API server
"""
