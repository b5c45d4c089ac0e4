"""docs/plugins.md has the whole contract, and its first plugin works as it stands there."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from berth.engine import testing
from berth.engine.binding_points import BindingPlugin
from berth.engine.custom_plugins.sandbox import problem_of
from berth.engine.events import Event
from berth.engine.fast_paths import FilterFastPaths, ScoreFastPaths
from berth.engine.per_node import NodeView, PerNode, Reads
from berth.engine.plugin import Dependencies, FilterPlugin, Plugin, ScorePlugin
from berth.engine.verdict import Code
from berth.policy.entries import ENTRY_FIELDS

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
KINDS = (Plugin, FilterPlugin, ScorePlugin, FilterFastPaths, ScoreFastPaths, Dependencies, PerNode, BindingPlugin)
DERIVED = {"name", "filters", "scores", "reads_pods", "reads_only_usage"}
CONTRACT = [name for kind in KINDS for name in vars(kind) if not name.startswith("_") and name not in DERIVED]
VIEW = ["name", *(name for name, value in vars(NodeView).items() if isinstance(value, property))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("name", sorted({*CONTRACT, *VIEW, *Event.__members__, *Code.__members__, *Reads.__members__}))
def test_a_part_of_the_contract_is_on_the_page(name: str) -> None:
    assert re.search(rf"[`.]{name}\b", PAGE)


@pytest.mark.parametrize("name", ["cluster", "make", "verdicts", "scores", "check_contract"])
def test_a_helper_for_tests_is_on_the_page(name: str) -> None:
    assert callable(getattr(testing, name))
    assert f"`{name}(" in PAGE


def test_the_first_plugin_keeps_the_contract_and_passes_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin, test = blocks("python")[:2]
    quiet = ModuleType("quiet")
    monkeypatch.setitem(sys.modules, "quiet", quiet)
    exec(plugin, vars(quiet))
    assert problem_of(quiet.QuietNodes) == ""
    names: dict[str, object] = {}
    exec(test, names)
    names["test_loud_nodes_are_refused"]()  # type: ignore[operator]
    testing.check_contract(quiet.QuietNodes, {}, names["NODES"], [names["POD"]])  # type: ignore[arg-type, list-item]


def test_the_gang_of_the_page_is_a_plugin() -> None:
    names: dict[str, object] = {}
    exec(blocks("python")[-1], names)
    assert problem_of(names["Gang"]) == ""


def test_the_policy_of_the_page_has_entries_as_policies_have_them() -> None:
    [policy] = map(yaml.safe_load, blocks("yaml"))
    assert policy["spec"]["predicates"] == [{"name": "QuietNodes"}]
    assert set(policy["spec"]["priorities"][0]) <= set(ENTRY_FIELDS["score"])
