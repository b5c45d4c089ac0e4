"""docs/compatibility.md says what the code does: every plugin, argument, old name and reason, and nothing else."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from berth.engine import pipeline
from berth.engine.legacy import OLD_PLUGINS
from berth.engine.legacy.aliases import PREDICATES, PRIORITIES, Alias
from berth.engine.plugin import BadArgument
from berth.engine.preemption import preemption, victims
from berth.engine.preemption.preemption import Preemption
from berth.engine.registry import PLUGINS
from berth.engine.state import migration, volume_index
from berth.model import SpreadConstraint
from berth.policy.defaults import DEFAULT_PRIORITIES, KUBERNETES_VERSION, OWN_WEIGHTS, PREDICATE_ORDER
from conformance.cases import vectors

PAGE = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text(encoding="utf-8")
OLD = {plugin.name for plugin in OLD_PLUGINS}
TODAYS = set(PLUGINS) - OLD
MENDING = {"yes": "Unschedulable", "no": "UnschedulableAndUnresolvable", "error": "Error"}


def section(title: str) -> str:
    """What stands under a heading, up to the next of its level or above."""
    begin = re.search(rf"^(#+) {re.escape(title)}$", PAGE, re.MULTILINE)
    assert begin, f"the page has no heading {title!r}"
    rest = PAGE[begin.end() :]
    end = re.search(rf"^#{{1,{len(begin[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text: str, first_column: str) -> list[list[str]]:
    """The cells of the rows of the table with this heading."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {first_column} |"):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def headings(title: str) -> list[str]:
    return re.findall(r"^### (\S+)$", section(title), re.MULTILINE)


def arguments(text: str, first_column: str = "argument") -> set[str]:
    return {row[0].strip("` ") for row in table(text, first_column)}


# --- plugins and their arguments


def test_every_plugin_has_its_place_and_none_is_there_that_does_not_exist() -> None:
    assert sorted(headings("Today's plugins")) == sorted(TODAYS)
    assert sorted(headings("Old plugins")) == sorted(OLD)


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_the_page_says_whether_a_plugin_filters_or_scores(name: str) -> None:
    text, plugin = section(name), PLUGINS[name]
    filters, scores = ("Predicate,", "Priority,") if name in OLD else ("Filter", "Score,")
    assert (filters in text) is plugin.filters
    weights = {**{entry.name: entry.weight for entry in DEFAULT_PRIORITIES}, **OWN_WEIGHTS}
    assert plugin.scores is (scores in text or "with weight" in text)
    assert re.findall(r"weight (\d+)", text) == ([str(weights[name])] if name in weights else [])


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_plugin_takes_the_arguments_that_the_page_lists(name: str) -> None:
    listed = {argument.split(".")[0].split("[")[0] for argument in arguments(section(name))}
    assert listed == accepted(name)
    assert ("No arguments." in " ".join(section(name).split())) is not bool(listed)


def accepted(name: str) -> set[str]:
    """What the plugin says itself when it is given an argument that it does not know."""
    with pytest.raises(BadArgument) as refused:
        PLUGINS[name]({"no such argument": 1})
    return known_fields(refused.value)


def known_fields(error: BadArgument) -> set[str]:
    found = re.search(r"known are (.*)", error.problem)
    return set(found[1].split(", ")) if found else set()


@pytest.mark.parametrize(
    ("name", "prefix", "args"),
    [
        ("NodeResourcesFit", "scoringStrategy.", {"scoringStrategy": {"?": 1}}),
        ("NodeResourcesFit", "scoringStrategy.resources[].", {"scoringStrategy": {"resources": [{"?": 1}]}}),
        (
            "NodeResourcesFit",
            "scoringStrategy.requestedToCapacityRatio.",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"?": 1}}},
        ),
        (
            "NodeResourcesFit",
            "scoringStrategy.requestedToCapacityRatio.shape[].",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {"shape": [{"?": 1}]},
                }
            },
        ),
        ("NodeResourcesBalancedAllocation", "resources[].", {"resources": [{"?": 1}]}),
    ],
)
def test_the_page_lists_the_fields_of_an_argument(name: str, prefix: str, args: dict[str, object]) -> None:
    with pytest.raises(BadArgument) as refused:
        PLUGINS[name](args)
    inside = {a.removeprefix(prefix) for a in arguments(section(name)) if a.startswith(prefix)}
    assert {re.split(r"[.\[]", field)[0] for field in inside} == known_fields(refused.value)


def test_the_page_lists_the_fields_of_default_constraints() -> None:
    names = {field.name: field.name for field in fields(SpreadConstraint)} | {"selector": "label_selector"}
    expected = {f"defaultConstraints[].{in_camel_case(name)}" for name in names.values()}
    assert arguments(section("PodTopologySpread")) - {"defaultingType"} == expected


def in_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def test_the_page_lists_the_arguments_of_preemption_with_their_defaults() -> None:
    with pytest.raises(BadArgument) as refused:
        Preemption({"?": 1})
    rows = {row[0].strip("`"): row[2] for row in table(section("Preemption"), "argument of DefaultPreemption")}
    assert set(rows) == known_fields(refused.value)
    default = Preemption()
    assert rows["minCandidateNodesPercentage"] == str(default.percentage)
    assert rows["minCandidateNodesAbsolute"] == str(default.absolute)


# --- old names


@pytest.mark.parametrize(("heading", "aliases"), [("old predicate", PREDICATES), ("old priority", PRIORITIES)])
def test_every_alias_is_there_with_what_it_stands_for(heading: str, aliases: dict[str, Alias]) -> None:
    rows = {row[0]: row[1] for row in table(section("Old names that live on"), heading)}
    assert rows == {name: meaning(alias) for name, alias in aliases.items()}


def meaning(alias: Alias) -> str:
    strategy = alias.args.get("scoringStrategy", {}).get("type")
    return ", ".join(alias.plugins) + (f" with {strategy}" if strategy else "")


def test_the_order_of_predicates_is_that_of_the_code() -> None:
    paragraph = section("Predicate order").strip().split("\n\n")[-1]
    assert re.findall(r"\w+", paragraph) == list(PREDICATE_ORDER)


def test_the_versions_are_those_of_the_oracles() -> None:
    oracles = Path(__file__).parents[1] / "conformance" / "oracle"
    for oracle in ("current", "legacy"):
        version = re.search(r"k8s\.io/kubernetes v(\S+)", (oracles / oracle / "go.mod").read_text())
        assert version
        assert f"kube-scheduler {version[1]}" in PAGE
    assert f"default profile of {KUBERNETES_VERSION}" in PAGE


# --- reasons

REASONS = [(row[0], row[1], row[2].strip("`"), row[3]) for row in table(section("Reasons"), "plugin")]


def test_reasons_are_of_plugins_that_filter_and_every_filter_has_one() -> None:
    assert {plugin for plugin, _, _, _ in REASONS} == {name for name, plugin in PLUGINS.items() if plugin.filters}
    assert {(of, code.split(";")[0]) for _, of, _, code in REASONS} <= {
        (of, mending) for of in ("node", "pod") for mending in MENDING
    }


def test_every_reason_that_kubernetes_gives_is_there_with_its_code() -> None:
    known = [(plugin, of, pattern(reason), codes(mended)) for plugin, of, reason, mended in REASONS]
    unknown = {
        (plugin, of, code, reason)
        for plugin, of, code, reason in given()
        if not any(
            (plugin, of) == known_of[:2] and code in known_of[3] and known_of[2].fullmatch(reason) for known_of in known
        )
    }
    assert not unknown


def given() -> set[tuple[str, str, str, str]]:
    """(plugin, node or pod, code, reason) in the answers of the oracles."""
    found = set()
    for vector in vectors():
        names = called(vector["config"])
        expect = vector["expect"]
        for plugin, answer in (expect.get("preFilter") or {}).items():
            if answer["code"] not in ("Skip", "Success"):
                found |= {(names.get(plugin, plugin), "pod", answer["code"], r) for r in answer["reasons"]}
        for plugin, nodes in (expect.get("filter") or {}).items():
            for answer in nodes.values():
                found |= {(names.get(plugin, plugin), "node", answer["code"], r) for r in answer["reasons"]}
    return found


def called(config: dict[str, object]) -> dict[str, str]:
    """The plugins behind names that a Policy gives to predicates with arguments."""
    kinds = {"serviceAffinity": "CheckServiceAffinity", "labelsPresence": "CheckNodeLabelPresence"}
    listed = config.get("predicates") if config.get("kind") == "Policy" else None
    entries = [entry for entry in (listed if isinstance(listed, list) else []) if entry.get("argument")]
    return {entry["name"]: kinds[key] for entry in entries for key in entry["argument"]}


def pattern(reason: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<[^>]*>", ".+", re.escape(reason)))


def codes(mended: str) -> set[str]:
    """A cell may name two: "yes; no where ..."."""
    return {MENDING[part.strip().split(" ")[0]] for part in mended.split(";")}


def speaking_modules() -> Iterator[ModuleType]:
    """The modules whose words reach people."""
    for kind in PLUGINS.values():
        yield importlib.import_module(kind.__module__)
    yield from (migration, pipeline, preemption, victims, volume_index)


def test_every_text_that_the_engine_makes_is_there() -> None:
    texts = {text for module in speaking_modules() for text in (*constants(module), *sentences(module))}
    assert "node(s) were unschedulable" in texts
    assert 'persistentvolumeclaim "*" is being deleted' in texts
    told = [re.sub(r"<[^>]*>", "*", code) for code in re.findall(r"`([^`]+)`", PAGE)]
    assert not {text for text in texts if not any(as_pattern(text.strip()).search(code) for code in told)}


@pytest.mark.parametrize(("plugin", "reason"), [(plugin, reason) for plugin, _, reason, _ in REASONS])
def test_every_reason_on_the_page_is_one_that_the_plugin_can_give(plugin: str, reason: str) -> None:
    module = importlib.import_module(PLUGINS[plugin].__module__)
    made = [as_pattern(f"{text}*" if text.endswith(" ") else text) for text in constants(module)]
    made += [as_pattern(text) for source in (module, volume_index) for text in templates(source) if len(text) > 10]
    assert any(text.fullmatch(reason) for text in made)


def as_pattern(text: str) -> re.Pattern[str]:
    """The text with "*" for anything."""
    return re.compile(re.escape(text).replace(r"\*", ".+?"))


def constants(module: ModuleType) -> Iterator[str]:
    """Texts of several words that a module has under a name."""
    for name, value in vars(module).items():
        if name.isupper() and isinstance(value, str) and " " in value.strip():
            yield value


def sentences(module: ModuleType) -> Iterator[str]:
    return (text for text in templates(module) if len(re.findall(r"[A-Za-z]+", text)) >= 3 and text.count(" ") >= 2)


def templates(module: ModuleType) -> Iterator[str]:
    """Texts with something put in, "*" where it is; errors about arguments and names of columns aside."""
    tree = ast.parse(inspect.getsource(module))
    aside = {"BadArgument", "ValueError", "NotImplementedError", "fact"}
    passed_over = {
        id(part)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and (getattr(call.func, "id", "") or getattr(call.func, "attr", "")) in aside
        for part in ast.walk(call)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in passed_over:
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
