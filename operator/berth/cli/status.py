"""`berth status`: is Berth healthy, who leads, how fast is it, what waits and why, and how its policies are."""

import argparse
from typing import Final

from berth.cli.common import add_credentials, describe, run_later

MORE: Final = """The replica that leads answers, over its API of explanations: it is `kubectl get clusterview current`.

examples:
  %(prog)s                                            is it healthy, what waits, and why
  %(prog)s -o wide                                    with zones and the results of attempts
  %(prog)s -o json | jq .status.queue
  until %(prog)s >/dev/null; do sleep 1; done          wait until it is healthy

"""


def fill(status: argparse.ArgumentParser) -> None:
    text = "Show whether Berth is healthy, which replica leads, how fast it is, what waits and why, and its policies."
    describe(
        status, text, MORE, ok="healthy, and a replica leads", no="not healthy, nobody leads, or no replica answers"
    )
    status.add_argument(
        "-o", "--output", choices=("wide", "json", "yaml", "name"), help="format (default: text); wide has zones"
    )
    add_credentials(status)
    status.set_defaults(command=run_later("status"))
