"""The deterministic simulation: the shipped Berth on virtual time, on the object store, in weather drawn by a seed.

    PYTHONPATH=tests .venv/bin/python -m simulation --seeds 200
    PYTHONPATH=tests .venv/bin/python -m simulation --seed 17 --steps

How it is made, from the outside in:

    scenario        one seed, from its first object to its last check
    actors          users, nodes, kubelets, rivals and administrators, who change the store as they like (policies)
    recording       the store, which writes down what is done to it (trace)
    berth_process   the shipped Runtime, told by watchers instead of kopf; it can be paused, killed and started again
    network         its API: requests and answers are late, refused or lost
    listing         the ways in which a list is answered wrongly
    watcher         what kopf would tell it, in kopf's order
    electing        keeps its record among several replicas, by kopf's own code (seats)
    volumes         claims and volumes, their controller and a provisioner
    extender, usher what a policy asks outside, and a plugin between decision and bind
    weather         how often what goes wrong, another mixture for every seed
    overseer        stands beside a Berth and checks it after every step, by what it knows (knowledge)
    endings         what must hold once the faults have stopped
    mutations       changes of the shipped code that have to be noticed (mutating)

What holds is written in docs/invariants.md. Everything depends on the seed alone, so a seed that fails fails again.
"""
