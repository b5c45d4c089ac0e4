"""Berth's engine gives pods the devices that kube-scheduler's own plugin and allocator give them."""

import gzip
import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from conformance.device_verdicts import PLUGIN, differences
from conformance.oracle.build import require_oracles
from conformance.oracle.device_vectors import different, make_device_vectors
from conformance.oracle.generator import device_cases
from control_plane.programs import MissingPrograms

VECTORS = Path(__file__).parent / "vectors" / "dra.jsonl.gz"
COUNT, SIZE = 300, 8


def packed() -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_every_vector_agrees_with_the_oracle() -> None:
    found = {vector["id"]: list(differences(vector)) for vector in packed()}
    assert len(found) == COUNT
    assert {name: said for name, said in found.items() if said} == {}


def test_the_packed_cases_are_those_of_the_generator() -> None:
    made = list(device_cases("public", COUNT, SIZE))
    assert [{field: vector[field] for field in case} for vector, case in zip(packed(), made, strict=True)] == made


def test_the_vectors_show_every_kind_of_answer() -> None:
    vectors = packed()
    reasons = " ".join(
        reason
        for vector in vectors
        for answer in vector["expect"].get("filter", {}).get(PLUGIN, {}).values()
        for reason in answer["reasons"]
    )
    for words in ("cannot allocate all claims", "resourceclaim not available on the node", "invalid resource pools"):
        assert words in reasons
    for words in ("CEL runtime error: no such key", "is currently being updated", "a claim constraint would not be"):
        assert words in reasons
    results = [
        result
        for vector in vectors
        for allocations in vector["expect"]["allocations"].values()
        for each in allocations or ()
        for result in each["allocation"]["devices"]["results"]
    ]
    for field in ("shareID", "consumedCapacity", "adminAccess", "tolerations", "bindingConditions"):
        assert any(field in result for result in results), field
    assert any("/" in result["request"] for result in results)
    assert any(set(vector["expect"].get("score", {}).get(PLUGIN, {}).values()) - {0, 100} for vector in vectors)
    assert sum(PLUGIN in vector["expect"].get("preFilter", {}) for vector in vectors) > 10


@pytest.mark.cluster
def test_a_thousand_fresh_vectors_agree_with_the_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        require_oracles()
    except MissingPrograms as error:
        pytest.skip(str(error))
    seed = secrets.token_hex(4)
    with capsys.disabled():
        print(f"\nmake device-vectors SEED={seed} ARGS='--count 1000'", flush=True)
    vectors = make_device_vectors(seed, 1000, SIZE)
    assert vectors.failed == []
    assert len(vectors.packed) == 1000
    assert different(vectors) == {}
