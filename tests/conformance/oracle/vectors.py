"""Makes fresh vectors and judges them: `make vectors SEED=… COUNT=… SIZE=… NOMINATED=1 OUT=FILE`.

Random cases of a seed are put before the oracles, packed with their answers, and put before `berth judge`. Printed are
the agreement by theme and the first differences. A case on which the oracle itself fails is left out, and counted.
With NOMINATED=1 more pods are pending and nominated to a node, and such pods count on both sides; else on neither.

Exit status: 0 every vector agrees, 1 some do not, 2 the oracles cannot be built here.
"""

from __future__ import annotations

import argparse
import gzip
import json
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from berth.judge import judge_lines
from conformance.agreement import differences
from conformance.cases import theme
from conformance.oracle.build import CURRENT, LEGACY, Oracle, require_oracles
from conformance.oracle.generator import current_cases, legacy_cases, nominated_cases
from control_plane.go_build import BuildFailed
from control_plane.programs import MissingPrograms

Json = dict[str, Any]

SHOWN_DIFFERENCES = 5
SHOWN_CHARACTERS = 1500


class OracleFailed(Exception):
    """An oracle did not answer every case."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Cases with the oracle's answers (`expect`), and the ids of those on which the oracle itself failed.

    `nominated`: pods that are nominated to a node count in the answers.
    """

    packed: Sequence[Json]
    failed: Sequence[str]
    nominated: bool


@dataclass(slots=True)
class Agreement:
    """How many vectors of each theme there are and how many agree, and what differs: (id, difference)."""

    total: Counter[str] = field(default_factory=Counter)
    agreeing: Counter[str] = field(default_factory=Counter)
    different: list[tuple[str, str]] = field(default_factory=list)


def make_vectors(seed: str, count: int, size: int, *, nominated: bool = False) -> Vectors:
    """`count` vectors of each theme, of `size` nodes at most; the oracles must be there."""
    if nominated:
        said = answered(CURRENT, nominated_cases(seed, count, size), "-nominated")
    else:
        said = answered(CURRENT, current_cases(seed, count, size))
    said += answered(LEGACY, legacy_cases(seed, count, size))
    failed = [case["id"] for case, verdict in said if "error" in verdict]
    packed = [case | {"expect": verdict} for case, verdict in said if "error" not in verdict]
    return Vectors(packed, failed, nominated)


def command(seed: str, count: int, size: int, *, nominated: bool = False) -> str:
    """The line that makes the same vectors again."""
    return f"make vectors SEED={seed} COUNT={count} SIZE={size}" + (" NOMINATED=1" if nominated else "")


def answered(oracle: Oracle, cases: Iterable[Json], *flags: str) -> list[tuple[Json, Json]]:
    """Each case with what the oracle says of it; the oracle must be there. Raises OracleFailed."""
    asked = list(cases)
    lines = "".join(_line(case) for case in asked)
    run = subprocess.run([oracle.program, *flags], input=lines, capture_output=True, text=True, check=False)
    verdicts = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode or [case["id"] for case in asked] != [verdict.pop("id", None) for verdict in verdicts]:
        last_words = "\n".join(run.stderr.splitlines()[-20:])
        raise OracleFailed(f"{oracle.name} answered {len(verdicts)} of {len(asked)} cases:\n{last_words}")
    return list(zip(asked, verdicts, strict=True))


def save(vectors: Vectors, path: Path) -> None:
    """One JSON object on a line, packed; the same vectors always make the same file."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.writelines(_line(vector).encode() for vector in vectors.packed)


def judge_vectors(vectors: Vectors) -> Agreement:
    """What Berth says of them, compared with what the oracle said."""
    found = Agreement()
    verdicts = judge_lines((_line(vector) for vector in vectors.packed), nominated=vectors.nominated)
    for vector, verdict in zip(vectors.packed, verdicts, strict=True):
        said = list(differences(vector["expect"], verdict))
        found.total[theme(vector)] += 1
        found.agreeing[theme(vector)] += not said
        found.different += [(vector["id"], difference) for difference in said]
    return found


def describe(agreement: Agreement) -> str:
    different = [f"{case}: {_shortened(text)}" for case, text in agreement.different[:SHOWN_DIFFERENCES]]
    if len(agreement.different) > SHOWN_DIFFERENCES:
        different.append(f"... and {len(agreement.different) - SHOWN_DIFFERENCES} more differences")
    themes = [f"{name:<16}{agreement.agreeing[name]:>6} of {total}" for name, total in agreement.total.items()]
    whole = f"{agreement.agreeing.total()} of {agreement.total.total()} vectors agree"
    return "\n".join([*different, *themes, whole])


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} ..."


def _line(body: Json) -> str:
    return json.dumps(body, separators=(",", ":")) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    seed = options.seed or secrets.token_hex(4)
    print(command(seed, options.count, options.size, nominated=options.nominated), file=sys.stderr, flush=True)
    try:
        require_oracles()
        vectors = make_vectors(seed, options.count, options.size, nominated=options.nominated)
    except MissingPrograms as error:
        print(f"vectors: {error}", file=sys.stderr)
        return 2
    except (BuildFailed, OracleFailed) as error:
        print(f"vectors: {error}", file=sys.stderr)
        return 1
    if options.out:
        save(vectors, options.out)
    if vectors.failed:
        print(f"left out, as the oracle itself failed on them: {', '.join(vectors.failed)}", file=sys.stderr)
    agreement = judge_vectors(vectors)
    print(describe(agreement))
    return 1 if agreement.different else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make vectors", description="Fresh vectors, made and judged.")
    parser.add_argument("--seed", help="any text without spaces (default: chosen now, and printed)")
    parser.add_argument("--count", type=_number_from(1), default=150, help="cases of each theme (default: 150)")
    parser.add_argument("--size", type=_number_from(3), default=10, help="most nodes of a case (default: 10)")
    parser.add_argument("--nominated", action="store_true", help="nominate more pods to nodes, and count them")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the vectors there, packed (.jsonl.gz)")
    return parser


def _number_from(lowest: int) -> Any:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < lowest:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {lowest} up")
        return int(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
