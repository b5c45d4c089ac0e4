"""Benchmarks. `make bench` runs bench.cluster: Berth beside kube-scheduler on a real API server."""
