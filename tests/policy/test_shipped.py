"""The CRD says what the code says."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_expr_python import cel  # type: ignore[import-untyped]

from berth.policy import PolicyStore, load_policy, usage
from berth.policy import schema as code
from berth.policy.fields.setting_fields import LONGEST_SECONDS, SHORTEST_SECONDS
from berth.policy.fields.spec_fields import KIND
from berth.policy.fields.status_fields import MESSAGE_MAX_LENGTH
from berth.policy.records import PolicyError
from policy.builders import make_policy

ROOT = Path(__file__).parents[2]
CRD = yaml.safe_load((ROOT / "crds" / "schedulingpolicies.berth.dev.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC_SCHEMA = SCHEMA["properties"]["spec"]
SPEC = SPEC_SCHEMA["properties"]
STATUS = SCHEMA["properties"]["status"]["properties"]
NAMES = ("name", "plugin")
SECONDS = (SHORTEST_SECONDS, LONGEST_SECONDS)


def fields_of(schema: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """Every field of a schema by its path."""
    found = {}
    for name, field in schema.get("properties", {}).items():
        found[f"{path}.{name}"] = field
        found |= fields_of(field, f"{path}.{name}")
    if "items" in schema:
        found |= fields_of(schema["items"], f"{path}[]")
    return found


def takes_empty(field: dict[str, Any]) -> bool:
    """Whether the API server takes an empty text for it; anything that is no text is none of this."""
    if field.get("type") != "string" or "enum" in field:
        return True
    return not field.get("minLength") and re.search(field.get("pattern", ""), "") is not None


def put(value: object, path: list[str]) -> dict[str, Any]:
    """An object with the value at the path, one item in each list on the way; `priorities[].name` is a path.

    Beside it is a name, without which readers of entries do not go on.
    """
    name, *rest = path
    inner = put(value, rest) if rest else value
    return {"name": "own", name.removesuffix("[]"): [inner] if name.endswith("[]") else inner}


NEVER_EMPTY = [
    path
    for path, field in fields_of(SPEC_SCHEMA).items()
    if not takes_empty(field) and not path.startswith(".defaultConstraints")  # a plugin reads these, one by one
]


class TestTheDefinition:
    def test_it_defines_the_kind_that_the_code_reads(self) -> None:
        spec = CRD["spec"]
        assert f"{spec['group']}/{spec['versions'][0]['name']}" == code.API_VERSION
        assert spec["names"]["kind"] == KIND
        assert (spec["names"]["plural"], spec["names"]["shortNames"]) == ("schedulingpolicies", ["sp"])
        assert spec["scope"] == "Cluster"
        assert spec["versions"][0]["subresources"] == {"status": {}}

    @pytest.mark.parametrize("path", [path for path in fields_of(SCHEMA) if path != ".metadata"])
    def test_every_field_is_described(self, path: str) -> None:
        assert fields_of(SCHEMA)[path]["description"].endswith(".")

    @pytest.mark.parametrize("path", NEVER_EMPTY)
    def test_a_text_that_it_does_not_take_empty_the_code_does_not_take_either(self, path: str) -> None:
        manifest = {**make_policy(), "spec": put("", path.removeprefix(".").split("."))}
        with pytest.raises(PolicyError) as caught:
            load_policy(manifest)
        assert f"spec{path.replace('[]', '[0]')}" in [problem.field for problem in caught.value.problems]

    @pytest.mark.parametrize(("enabled", "taken"), [(True, False), (False, True)])
    def test_expressions_that_are_switched_off_do_not_count(self, enabled: bool, taken: bool) -> None:
        listed = [{"name": f"e{number}", "expression": "true", "enabled": enabled} for number in range(17)]
        rules = [rule["rule"] for rule in SPEC_SCHEMA["x-kubernetes-validations"] if "<= 16" in rule["rule"]]
        environment = cel.NewEnv(variables={"self": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)})
        [answer] = [environment.compile(rule).eval(data={"self": {"predicates": listed}}).value() for rule in rules]
        assert answer is taken
        if taken:
            load_policy(make_policy(predicates=listed))

    def test_it_fills_in_only_what_the_base_has_no_say_in(self) -> None:
        filled = {path: field["default"] for path, field in fields_of(SCHEMA).items() if "default" in field}
        assert filled == {
            ".spec.mode": "Active",
            ".spec.base": "KubernetesDefault",
            ".spec.predicates[].enabled": True,
            ".spec.priorities[].enabled": True,
        }

    def test_the_status_that_the_store_writes_has_the_fields_of_the_schema(self) -> None:
        store = PolicyStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
        store.observe(make_policy())
        status: Any = store.statuses()["batch"]
        assert set(status) == set(STATUS)
        for condition in status["conditions"]:
            assert set(condition) == set(STATUS["conditions"]["items"]["properties"])
        assert STATUS["conditions"]["items"]["properties"]["message"]["maxLength"] == MESSAGE_MAX_LENGTH

    def test_whatever_the_store_holds_fits_into_the_status(self) -> None:
        error = STATUS["errors"]["items"]["properties"]
        shadow = STATUS["shadow"]["properties"]
        assert STATUS["errors"]["maxItems"] >= usage.FAILURES_MAX
        assert error["source"]["maxLength"] >= usage.SOURCE_MAX_LENGTH
        assert error["message"]["maxLength"] >= usage.MESSAGE_MAX_LENGTH
        assert shadow["examples"]["maxItems"] >= usage.EXAMPLES_MAX
        assert set(shadow) == {"judged", "examples", *usage.ShadowOutcome}

    def test_the_expressions_in_its_texts_are_good_ones(self) -> None:
        parameters = {"tier": "gold"}
        for key in ("predicates", "priorities"):
            text = SPEC[key]["items"]["properties"]["expression"]["description"]
            [example] = re.findall(r'Example: "(.+)"\.$', text)
            entries: dict[str, Any] = {key: [{"name": "e", "expression": example}]}
            load_policy(make_policy(parameters=parameters, **entries))
        [example] = re.findall(r'expression: "(.+?)"', SPEC["predicates"]["description"])
        load_policy(make_policy(predicates=[{"name": "not-retiring", "expression": example}]))

    def test_it_shows_in_columns_what_users_ask_first(self) -> None:
        columns = [
            entry["name"]
            for entry in CRD["spec"]["versions"][0]["additionalPrinterColumns"]
            if not entry.get("priority")
        ]
        assert columns == ["Scheduler", "Mode", "Ready", "Active", "Accepted", "In force", "Placed", "Pending", "Age"]
