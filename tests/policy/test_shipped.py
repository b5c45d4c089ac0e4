"""The CRD says what the code says, and the shipped policies are what they claim to be."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.engine.pipeline import TieBreak
from berth.policy import BUILT_IN, PolicyBook, entries, load_policy
from berth.policy import schema as code
from berth.policy.status import MESSAGE_MAX_LENGTH
from policy.builders import make_policy

ROOT = Path(__file__).parents[2]
CRD = yaml.safe_load((ROOT / "crds" / "schedulingpolicies.berth.dev.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC = SCHEMA["properties"]["spec"]["properties"]
STATUS = SCHEMA["properties"]["status"]["properties"]


def read_policy(name: str) -> Any:
    return yaml.safe_load((ROOT / "policies" / f"{name}.yaml").read_text())


def fields_of(schema: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """Every field of a schema by its path."""
    found = {}
    for name, field in schema.get("properties", {}).items():
        found[f"{path}.{name}"] = field
        found |= fields_of(field, f"{path}.{name}")
    if "items" in schema:
        found |= fields_of(schema["items"], f"{path}[]")
    return found


class TestTheDefinition:
    def test_it_defines_the_kind_that_the_code_reads(self) -> None:
        spec = CRD["spec"]
        assert f"{spec['group']}/{spec['versions'][0]['name']}" == code.API_VERSION
        assert spec["names"]["kind"] == code.KIND
        assert (spec["names"]["plural"], spec["names"]["shortNames"]) == ("schedulingpolicies", ["sp"])
        assert spec["scope"] == "Cluster"
        assert spec["versions"][0]["subresources"] == {"status": {}}

    @pytest.mark.parametrize("path", [path for path in fields_of(SCHEMA) if path != ".metadata"])
    def test_every_field_is_described(self, path: str) -> None:
        assert fields_of(SCHEMA)[path]["description"].endswith(".")

    def test_it_has_the_fields_that_the_code_knows(self) -> None:
        assert set(SPEC) == set(code.SPEC_FIELDS)
        assert set(SPEC["predicates"]["items"]["properties"]) == set(entries.ENTRY_FIELDS["filter"])
        assert set(SPEC["priorities"]["items"]["properties"]) == set(entries.ENTRY_FIELDS["score"])

    def test_its_bounds_are_those_of_the_code(self) -> None:
        weight = SPEC["priorities"]["items"]["properties"]["weight"]
        assert (weight["minimum"], weight["maximum"]) == (1, entries.WEIGHT_MAX)
        assert SPEC["schedulerName"]["maxLength"] == code.SCHEDULER_NAME_MAX_LENGTH
        for listed in (SPEC["predicates"], SPEC["priorities"], SPEC["predicateOrder"]):
            assert listed["maxItems"] == entries.ENTRIES_MAX
        for listed in (SPEC["predicates"], SPEC["priorities"]):
            fields = listed["items"]["properties"]
            assert fields["name"]["maxLength"] == fields["plugin"]["maxLength"] == entries.PLUGIN_NAME_MAX_LENGTH
        assert SPEC["tieBreak"]["enum"] == [choice.value for choice in TieBreak]
        assert SPEC["tieBreak"]["default"] == BUILT_IN.tie_break.value

    def test_its_texts_list_the_default_profile(self) -> None:
        for entry in BUILT_IN.predicates:
            assert entry.name in SPEC["predicates"]["description"]
        for priority in BUILT_IN.priorities:
            assert f"{priority.name} {priority.weight}" in SPEC["priorities"]["description"]

    def test_the_status_that_the_book_writes_has_the_fields_of_the_schema(self) -> None:
        book = PolicyBook(lambda: datetime(2026, 1, 1, tzinfo=UTC))
        book.observe(make_policy())
        status: Any = book.statuses()["batch"]
        assert set(status) == set(STATUS)
        for condition in status["conditions"]:
            assert set(condition) == set(STATUS["conditions"]["items"]["properties"])
        assert STATUS["conditions"]["items"]["properties"]["message"]["maxLength"] == MESSAGE_MAX_LENGTH

    def test_it_shows_in_columns_what_users_ask_first(self) -> None:
        columns = [
            entry["name"]
            for entry in CRD["spec"]["versions"][0]["additionalPrinterColumns"]
            if not entry.get("priority")
        ]
        assert columns == ["Scheduler", "Active", "Accepted", "In force", "Age"]


class TestTheShippedPolicies:
    @pytest.mark.parametrize("path", sorted((ROOT / "policies").glob("*.yaml")), ids=lambda path: path.stem)
    def test_each_file_is_a_valid_policy_named_like_the_file(self, path: Path) -> None:
        policy = load_policy(yaml.safe_load(path.read_text())).policy
        assert policy.name == path.stem

    def test_the_default_policy_is_exactly_the_built_in(self) -> None:
        manifest = read_policy("default")
        policy = load_policy(manifest).policy
        assert policy.name == "default"
        assert policy.scheduler_name == BUILT_IN.scheduler_name == "berth"
        assert policy.predicates == BUILT_IN.predicates
        assert policy.priorities == BUILT_IN.priorities
        assert policy.tie_break is BUILT_IN.tie_break

    def test_the_default_policy_spells_everything_out_in_order(self) -> None:
        spec = read_policy("default")["spec"]
        assert [entry["name"] for entry in spec["predicates"]] == [entry.name for entry in BUILT_IN.predicates]
        assert [(entry["name"], entry["weight"]) for entry in spec["priorities"]] == [
            (entry.name, entry.weight) for entry in BUILT_IN.priorities
        ]

    def test_binpack_fills_nodes_before_everything_else(self) -> None:
        policy = load_policy(read_policy("binpack")).policy
        weights = {entry.name: entry.weight for entry in policy.priorities}
        assert policy.scheduler_name == "berth-binpack"
        assert "NodeResourcesBalancedAllocation" not in weights
        assert weights.pop("NodeResourcesFit") > sum(weights.values())
        fit = next(entry for entry in policy.priorities if entry.name == "NodeResourcesFit")
        assert fit.args["scoringStrategy"]["type"] == "MostAllocated"  # type: ignore[index]
        assert policy.predicates == BUILT_IN.predicates
