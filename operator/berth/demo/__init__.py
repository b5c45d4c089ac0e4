"""`berth demo`: Berth at work on an embedded cluster, to be watched.

    scenario   what will happen: nodes, waves of workloads, the change of policy (a function of a seed)
    stage      where it happens: the embedded cluster and the operator, over HTTP
    play       the story: what happens when, and what is waited for
    picture    what is seen, from watch events; drawing, views and portrait show it
    verdict    what came of it, and what did not hold

Nothing but the command line imports this package.
"""

from berth.demo.command import add_arguments, main

__all__ = ["add_arguments", "main"]
