"""Kubernetes' own scheduling workloads (test/integration/scheduler_perf), read from its Go module and run here.

templating      the part of Go's templates that their files use
workloads       test cases, workloads and parameters; which are chosen, and how they are rescaled
operations      what a workload does, step by step
objects         nodes, pods and volumes as requests
tracking        when pods were created, attempted and bound, as a watch shows it
running         does the steps of a workload on an API server
"""
