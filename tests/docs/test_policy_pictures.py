"""docs/policies.md shows each policy of the library as it decides now, and every word that a status can say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.policy import status
from docs.pictures import draw
from support.library import SCENES, make_store, names, read_policies

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
CRD = yaml.safe_load((ROOT / "crds" / "schedulingpolicies.berth.dev.yaml").read_text(encoding="utf-8"))
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
LIBRARY = PAGE.partition("\n## The library\n")[2].partition("\n## ")[0]


def part(name: str) -> str:
    found = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^###|\Z)", LIBRARY, re.MULTILINE | re.DOTALL)
    assert found, f"the library of the page has no {name}"
    return found[1]


def test_every_file_of_the_library_has_its_part_and_its_scene() -> None:
    assert sorted(re.findall(r"^### (\S+)$", LIBRARY, re.MULTILINE)) == names() == sorted(SCENES)


@pytest.mark.parametrize("name", names())
def test_a_picture_is_what_the_engine_does(name: str) -> None:
    [shown] = re.findall(r"```\n(.*?)\n```", part(name), re.DOTALL)
    assert shown == draw(name)


@pytest.mark.parametrize("name", names())
def test_a_policy_is_listed_with_its_scheduler_name(name: str) -> None:
    scheduler = read_policies(name)[0]["spec"]["schedulerName"]
    assert f"| [{name}.yaml](../policies/{name}.yaml) | `{scheduler}` |" in LIBRARY


def test_every_condition_and_reason_is_on_the_page() -> None:
    text = (status.__doc__ or "").partition("Times follow")[0]
    said = {word for word in re.findall(r"\b[A-Z]\w+", text) if word not in ("What", "True", "False")}
    assert {"Ready", "Accepted", "NeverValid", "SameRank", "ExpressionFailing", "Healthy"} <= said
    assert not {word for word in said if f"`{word}`" not in PAGE}


@pytest.mark.parametrize("field", sorted(SCHEMA["status"]["properties"]))
def test_a_field_of_the_status_is_on_the_page(field: str) -> None:
    assert re.search(rf"`(status\.)?{field}(\[\]|\.\w+)?`", PAGE) or field == "conditions"


def test_what_the_page_says_of_a_broken_edit_is_what_the_book_says() -> None:
    [manifest] = read_policies("binpack")
    book = make_store([manifest])
    [patch] = re.findall(r"patch sp binpack --type=merge -p '(.*Fit.*)'", PAGE)
    metadata = {"name": "binpack", "uid": "uid-binpack", "generation": 2}
    book.observe({**manifest, "metadata": metadata, "spec": {**manifest["spec"], **json.loads(patch)["spec"]}})
    conditions: Any = book.statuses()["binpack"]["conditions"]
    told = {entry["type"]: entry for entry in conditions}
    assert told["Accepted"]["message"] in PAGE.splitlines()
    [row] = [line.split() for line in PAGE.splitlines() if "LastGoodInForce   " in line]
    assert row[-2] == told["Active"]["reason"]
    assert row[3:7] == [*(told[kind]["status"] for kind in ("Ready", "Active", "Accepted")), "1"]
