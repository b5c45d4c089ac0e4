"""`berth demo`: Berth at work on an embedded cluster, to be watched.

    scenario      what will happen: nodes, waves of workloads, the change of policy (a function of a seed)
    environment   where it happens: the embedded cluster and the operator, over HTTP
    play          the story: what happens when, and what it waits for
    picture       what is seen, from watch events; drawing, views and svg show it
    verdict       the numbers of both acts, and what did not hold
    runner        all of them together; command has the arguments and the exit code

Nothing but the command line imports this package.
"""

from berth.demo.command import add_arguments, main

__all__ = ["add_arguments", "main"]
