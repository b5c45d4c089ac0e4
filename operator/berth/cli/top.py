"""`berth top`: the cluster live, as the scheduler sees it."""

import argparse
from typing import Final

from berth.cli.common import add_credentials, describe, run_later

MORE: Final = """A bar is a node, or several, as high as its cpu is requested. Below are the queue with its reasons, the
rate, what waits, and the last decisions. The replica that leads answers, over its API of explanations, about once a
second. Ctrl-C ends it.
Without a terminal use `berth status` and `berth decisions -w`, which also have -o json.

examples:
  %(prog)s
  %(prog)s --context production

"""


def fill(top: argparse.ArgumentParser) -> None:
    describe(
        top,
        "Watch nodes fill, pods wait and decisions being made, on a terminal.",
        MORE,
        ok="",
        usage="usage error, or standard output is no terminal",
        interrupted="interrupted, which is how it ends",
    )
    add_credentials(top)
    top.set_defaults(command=run_later("top"))
