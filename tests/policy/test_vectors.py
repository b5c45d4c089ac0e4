"""Every configuration in the vectors, imported, has exactly the score plugins and weights of kube-scheduler."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.policy import compile_policy, import_configuration, parse_policy

VECTORS = Path(__file__).parents[1] / "conformance" / "vectors" / "public.jsonl.gz"


def read_vectors() -> Iterator[dict[str, Any]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@pytest.fixture(scope="module")
def vectors() -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each distinct configuration with the verdicts on it: most vectors share the default."""
    by_configuration: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for vector in read_vectors():
        key = json.dumps(vector["config"], sort_keys=True)
        by_configuration.setdefault(key, (vector["config"], []))[1].append(vector["expect"])
    return by_configuration


def test_every_configuration_gives_the_weights_of_kube_scheduler(
    vectors: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]],
) -> None:
    compared = 0
    for configuration, verdicts in vectors.values():
        policy = parse_policy(import_configuration(configuration).manifests[0])
        weights = {entry.name: entry.weight for entry in policy.priorities}
        for verdict in verdicts:
            if "weight" in verdict:
                assert weights == verdict["weight"], configuration
                compared += 1
    assert compared > 1500


def test_every_plugin_that_refused_a_node_is_among_the_predicates(
    vectors: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]],
) -> None:
    for configuration, verdicts in vectors.values():
        policy = parse_policy(import_configuration(configuration).manifests[0])
        names = {entry.name for entry in policy.predicates}
        for verdict in verdicts:
            assert set(verdict.get("filter", {})) <= names, configuration


def test_every_configuration_compiles_unless_a_plugin_that_cannot_be_configured_yet_is(
    vectors: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]],
) -> None:
    compiled = 0
    for configuration, _ in vectors.values():
        result = import_configuration(configuration)
        if not result.errors:
            compile_policy(parse_policy(result.manifests[0]))
            compiled += 1
        for problem in result.errors:
            assert "cannot be configured in this version" in problem.message, configuration
    assert compiled > 300
