"""Makes fresh vectors of the theme `dra` and compares them: `make device-vectors SEED=... COUNT=300 SIZE=8 OUT=FILE`.

Random cases of a seed are put before the oracle, which is kube-scheduler's own DynamicResources plugin and allocator,
and before Berth's engine. A case on which the oracle itself fails is left out, and counted.

Exit status: 0 every vector agrees, 1 some do not, 2 the oracle cannot be built here.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.device_verdicts import differences
from conformance.oracle.build import CURRENT, require_oracles
from conformance.oracle.generator import device_cases
from conformance.oracle.vectors import SHOWN_DIFFERENCES, Json, Vectors, answered, save
from control_plane.go_build import BuildFailed
from control_plane.programs import MissingPrograms


def make_device_vectors(seed: str, count: int, size: int) -> Vectors:
    """`count` vectors, of `size` nodes at most; the oracle must be there."""
    said = answered(CURRENT, device_cases(seed, count, size))
    failed = [case["id"] for case, verdict in said if "error" in verdict]
    packed = [case | {"expect": _about_devices(verdict)} for case, verdict in said if "error" not in verdict]
    return Vectors(packed, failed, nominated=False)


def different(vectors: Vectors) -> dict[str, list[str]]:
    """What differs, by the id of the vector."""
    found = {vector["id"]: list(differences(vector)) for vector in vectors.packed}
    return {name: said for name, said in found.items() if said}


def _about_devices(verdict: Json) -> Json:
    """What the plugin says; other plugins have themes of their own. Share IDs are random, and left out."""
    kept: Json = {"feasible": verdict["feasible"], "allocations": verdict.get("allocations", {})}
    for allocations in kept["allocations"].values():
        for each in allocations:
            for result in each["allocation"]["devices"]["results"]:
                if "shareID" in result:
                    result["shareID"] = "share"
    for part in ("preFilter", "filter", "score"):
        if "DynamicResources" in verdict.get(part, {}):
            kept[part] = {"DynamicResources": verdict[part]["DynamicResources"]}
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make device-vectors", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    try:
        require_oracles()
    except (MissingPrograms, BuildFailed) as error:
        print(f"device-vectors: {error}", file=sys.stderr)
        return 2
    vectors = make_device_vectors(options.seed, options.count, options.size)
    found = different(vectors)
    for name, said in list(found.items())[:SHOWN_DIFFERENCES]:
        print(f"{name}: {said[0]}")
    print(f"seed {options.seed}: {len(vectors.packed) - len(found)} of {len(vectors.packed)} vectors agree", end="")
    print(f"; the oracle failed on {len(vectors.failed)}" if vectors.failed else "")
    if options.out:
        save(vectors, options.out)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
