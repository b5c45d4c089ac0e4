"""A real Kubernetes control plane for tests and benchmarks: etcd, kube-apiserver, kubectl and kube-scheduler.

    programs        where the programs are: KUBEBUILDER_ASSETS, or the cache folder that `make control-plane` fills
    build           `make control-plane`: builds what is missing
    process         a program as a child process that never outlives us
    launcher        ControlPlane: etcd and kube-apiserver on free loopback ports
    client          a small asyncio client on plain dicts, fast enough for thousands of objects
    berth_process   Berth as a process of its own, as a user would run it

There is no kubelet and no controller-manager: pods never run, claims are never bound, deleted pods need a grace period
of 0.
"""
