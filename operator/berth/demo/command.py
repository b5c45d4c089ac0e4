"""`berth demo`: its arguments, its signals and its exit code.

Exit codes: 0 all that the demo shows held, 1 something did not, 2 usage error, 130 it was interrupted before its end.
What needs rich and a server is imported when the demo runs and not before: other commands start without it.
"""

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from berth.demo.scenario import problem_with
from berth.signals import take_signals

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
DEFAULT_NODES, DEFAULT_PODS, DEFAULT_SEED = 200, 1200, 0

DESCRIPTION = """A cluster of simulated nodes, and Berth placing pods on it: on a terminal as a live picture, elsewhere
as lines. Half-way the policy is changed from spreading to packing. Ends by itself within a minute."""
EXAMPLES = """needs no cluster, no container and no network: an API server in Python, and the real operator beside it

exit codes:
  0    everything that the demo shows held
  1    something did not; the last lines say what
  2    usage error
  130  interrupted before its end

examples:
  %(prog)s
  %(prog)s --nodes 500 --pods 3000 --seed 7
  %(prog)s --keep                        afterwards: kubectl, with the KUBECONFIG that is printed
"""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The arguments of the command."""

    nodes: int = DEFAULT_NODES
    pods: int = DEFAULT_PODS
    seed: int = DEFAULT_SEED
    keep: bool = False
    picture: Path | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `berth demo`, and its help."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--nodes", metavar="N", type=_whole, default=DEFAULT_NODES, help="default: %(default)s")
    parser.add_argument(
        "--pods", metavar="N", type=_whole, default=DEFAULT_PODS, help="in both acts together (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=_whole, default=DEFAULT_SEED, help="of everything that is random (default: 0)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="stay up at the end, for kubectl, until Ctrl-C; prints a KUBECONFIG"
    )
    parser.add_argument("--picture", metavar="FILE", help="save the picture of the end, too, as an SVG file")


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number')
    return int(text)


def main(arguments: argparse.Namespace) -> int:
    """Run the demo; the exit code."""
    problem = problem_with(arguments.nodes, arguments.pods)
    if problem is not None:
        print(f"berth demo: {problem}", file=sys.stderr)
        return USAGE
    picture = None if arguments.picture is None else Path(arguments.picture)
    options = DemoOptions(arguments.nodes, arguments.pods, arguments.seed, arguments.keep, picture)
    return asyncio.run(_until_signalled(options))


async def _until_signalled(options: DemoOptions) -> int:
    from berth.demo.runner import run_demo

    stopping = asyncio.Event()
    take_signals(stopping, INTERRUPTED)  # its operator follows: parent_watch
    return await run_demo(options, stopping)
