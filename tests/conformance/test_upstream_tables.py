"""Upstream's own table of device selectors, run through Berth; and our expressions, put before upstream."""

import json
from typing import Any

import pytest

from berth.model.devices import Device, parse_resource_slice
from berth.policy.device_selectors import CompileError, EvaluationError, compile_selector
from conformance.oracle.tables import answers, require_tables, table
from control_plane.programs import MissingPrograms
from device_selectors.answers import recorded
from device_selectors.expressions import DEVICE, DRIVER, EXPRESSIONS
from support.builders import make_object

Json = dict[str, Any]


@pytest.fixture(scope="session")
def tables() -> None:
    try:
        require_tables()
    except MissingPrograms as error:
        pytest.skip(str(error))


def device_of(body: Json) -> Device:
    spec = {"driver": "any", "pool": {"name": "p"}, "devices": [body]}
    return parse_resource_slice(make_object("ResourceSlice", "s", spec=spec)).devices[0]


def answer_of(case: Json) -> Json:
    try:
        return {"match": compile_selector(case["expression"]).matches(case["driver"], device_of(case["device"]))}
    except CompileError as error:
        return {"compileError": str(error)}
    except EvaluationError as error:
        return {"matchError": str(error)}


def agrees(ours: Json, theirs: Json) -> bool:
    """Equal, but for where in the text a compile error is, which only they say."""
    if "compileError" in theirs:
        return "compileError" in ours
    return ours.get("matchError", ours.get("match")) == theirs.get("matchError", theirs.get("match"))


@pytest.mark.cluster
def test_every_selector_of_upstreams_table_gets_upstreams_answer(tables: None) -> None:
    cases = table("selectors")
    assert len(cases) == 69
    different = {case["name"]: answer_of(case) for case in cases if not agrees(answer_of(case), case)}
    assert different == {}


@pytest.mark.cluster
def test_the_table_expects_what_we_say_where_its_gates_are_the_default_ones(tables: None) -> None:
    checked = 0
    for case in table("selectors"):
        if case["listAttributes"] or case["withoutCapacity"]:
            continue
        ours, checked = answer_of(case), checked + 1
        if case["wantCompileError"]:
            assert case["wantCompileError"] in ours.get("compileError", ""), case["name"]
        elif case["wantMatchError"]:
            assert case["wantMatchError"] in ours.get("matchError", ""), case["name"]
        else:
            assert ours == {"match": case["wantMatch"]}, case["name"]
    assert checked == 37


@pytest.mark.cluster
def test_the_recorded_answers_to_our_expressions_are_upstreams(tables: None) -> None:
    said = answers({"expression": each, "driver": DRIVER, "device": DEVICE} for each in EXPRESSIONS)
    assert [json.dumps(each, sort_keys=True) for each in map(_short, said)] == [
        json.dumps(each, sort_keys=True) for each in recorded()
    ]


def _short(answer: Json) -> Json:
    return {"compileError": True} if "compileError" in answer else answer
