"""`berth judge`: decides cases from a file."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import TextIO

from berth.cli.common import UNREADABLE, complain, describe, whole


def fill(judge: argparse.ArgumentParser) -> None:
    describe(judge, "Decide cases given as JSON lines and write one verdict a line.")
    judge.add_argument("file", metavar="FILE", nargs="?", help="the cases (default: standard input)")
    judge.add_argument(
        "--seed",
        metavar="N",
        type=whole,
        default=0,
        help="seed of the order in which objects arrive and of choices (default: 0)",
    )
    judge.add_argument("-o", "--output", metavar="FILE", help="where the verdicts go (default: standard output)")
    judge.add_argument(
        "--summary",
        action="store_true",
        help='say on standard error what became of the cases, and which of them are not as they "expect"',
    )
    judge.add_argument(
        "--nominated",
        action="store_true",
        help="count pods that are nominated to a node as if they were on it (the packed conformance vectors do not)",
    )
    judge.set_defaults(command=_judge)


def _judge(options: argparse.Namespace) -> int:
    from berth.judge import run_judge  # the engine, which the help does without

    try:
        with _output(options.output) as out:
            summarise = sys.stderr if options.summary else None
            return run_judge(options.file, out, options.seed, nominated=options.nominated, summarise=summarise)
    except UNREADABLE as error:
        return complain(f"berth judge: {error}")


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with open(path, "w", encoding="utf-8") as out:
        yield out
