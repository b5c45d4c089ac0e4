"""Benchmarks. `make bench` runs the first four.

engine       how long one decision takes, by what the pod asks for and by the size of the cluster
expressions  what expressions in a policy add to that
rollouts     whether it stays so, and memory too, when many Deployments are rolled out again and again
cluster      Kubernetes' own workloads (perf/) with kube-scheduler and Berth, on a real API server
scale        how Berth grows to 10,000 nodes and 100,000 pods, on a real API server
takeover     how long nobody schedules when a leader dies
storms       what one event costs where thousands of pods wait
loop_steps   the longest step of the event loop in a large cluster
floods       what one user can do to the others by multiplying something
simulate     how long `berth simulate` takes
"""
