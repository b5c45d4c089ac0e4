"""Plugins of other packages: found by their entry points, imported when named, and guarded against their own faults."""

import logging
import re
from asyncio import CancelledError
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np
import pytest

from berth.engine.answer_cache.equivalence import Axis, EquivalenceGroups
from berth.engine.custom_plugins.sandbox import guarded, problem_of
from berth.engine.diagnosis import Diagnosis
from berth.engine.events import ANY, Event
from berth.engine.per_node import PerNode
from berth.engine.pipeline import Pipeline, Placement, TieBreak
from berth.engine.plugin import (
    BadArgument,
    Dependencies,
    FilterPlugin,
    PluginFailed,
    PodsRead,
    Query,
    ScorePlugin,
    refuse_unknown,
)
from berth.engine.plugins.taint_toleration import TaintToleration
from berth.engine.preemption.preemption import Preemption
from berth.engine.preemption.victims import Nomination
from berth.engine.registry import OWN_PLUGINS, PLUGINS, UnknownPlugin, UnusablePlugin
from berth.engine.state.state import State
from berth.engine.testing import cluster, make
from berth.engine.verdict import Code, Int64Column, PreFilter, Rows, Verdicts, refuse_where, row_count
from berth.model import Pod, parse_pod
from berth.policy import PolicyError, PolicyStore, load_policy
from engine.expecting import as_placement, make_filter, make_score
from engine.packages import Site
from policy.builders import make_policy
from policy.harness import Clock, condition, in_force
from support.builders import Body, make_node, make_pod

PICKY = """
    from berth.engine.plugin import Dependencies, FilterPlugin, refuse_unknown
    from berth.engine.verdict import Code, refuse_where

    class Picky(FilterPlugin):
        dependencies = Dependencies(static_key=lambda pod: ())

        def __init__(self, args):
            refuse_unknown(args, "disk")
            self._disk = args["disk"].lower()
            args["disk"] = None

        def filter(self, query, state, rows):
            ids, values = state.table.label("disk")
            return refuse_where(ids[rows] != values.ids.get(self._disk, -2), Code.UNRESOLVABLE, "node(s) were boring")
"""


UNDERIVABLE = """
    from berth.engine.per_node import PerNode

    class Broken(PerNode):
        def fits(self, pod, node):
            return True

        def __init_subclass__(cls):
            raise TypeError("no heirs")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder on the path, to install packages into."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = Site(tmp_path)
    yield folder
    folder.forget()


def a_pod(name: str = "p", **more: Any) -> Pod:
    return parse_pod(make_pod(name, cpu="1", **more))


def policy(*predicates: Body, priorities: Sequence[Body] = ()) -> Body:
    spec = {"schedulerName": "berth", "predicates": list(predicates), "priorities": list(priorities)}
    return {"metadata": {"name": "mine"}, "spec": spec}


def refused(*predicates: Body, **more: Any) -> list[tuple[str, str]]:
    with pytest.raises(PolicyError) as error:
        load_policy(policy(*predicates, **more))
    return [(problem.field, problem.message) for problem in error.value.problems]


# --- packages --------------------------------------------------------------------------------------------------------


def test_a_policy_uses_a_plugin_of_an_installed_package(site: Site) -> None:
    site.install(PICKY, "Picky")
    pipeline = load_policy(policy({"name": "Picky", "args": {"disk": "SSD"}})).pipeline
    state = cluster([make_node("a"), make_node("b", labels={"disk": "ssd"})])
    assert pipeline.decide(a_pod(), state, Random(0)) == Placement("b", 2, 1)


def test_a_policy_has_several_of_an_outside_plugin_under_names_of_their_own(site: Site) -> None:
    site.install(PICKY, "Picky")
    entries = [{"name": f"only-{disk}", "plugin": "Picky", "args": {"disk": disk}} for disk in ("ssd", "tape")]
    pipeline = load_policy(policy(*entries)).pipeline
    assert [plugin.name for plugin in pipeline.filters[-2:]] == ["only-ssd", "only-tape"]


def test_a_package_that_is_installed_while_the_scheduler_runs_is_found(site: Site) -> None:
    assert "Picky" not in PLUGINS
    with pytest.raises(UnknownPlugin):
        make_filter("Picky", {"disk": "ssd"})
    site.install(PICKY, "Picky")
    assert "Picky" in PLUGINS
    assert list(PLUGINS)[: len(OWN_PLUGINS)] == list(OWN_PLUGINS)
    assert make_filter("Picky", {"disk": "ssd"}).name == "Picky"


def test_nothing_is_imported_before_a_policy_names_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    module = site.install("raise SystemExit('imported')", "Lazy")
    assert "Lazy" in list(PLUGINS)
    load_policy(policy({"name": "NodeName"}))
    with pytest.raises(UnusablePlugin, match=rf"package acme 1.0, entry point Lazy = {module}:Lazy"):
        make_filter("Lazy")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("class Broken(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("other = 1", "AttributeError"),
        ("Broken = 3", "3 is not a subclass of FilterPlugin or ScorePlugin"),
        ("class Broken: pass", "is not a subclass of FilterPlugin or ScorePlugin"),
        (UNDERIVABLE, "cannot be derived from: TypeError: no heirs"),
        ("from berth.engine.plugin import Plugin as Broken", "has to derive from FilterPlugin, ScorePlugin or PerNode"),
    ],
)
def test_a_package_that_is_no_good_is_refused_in_words_with_its_name_and_version(
    site: Site, code: str, words: str
) -> None:
    module = site.install(code, "Broken", package="faulty", version="2.1")
    where, message = refused({"name": "Broken"})[0]
    assert where == "spec.predicates[0].name"
    assert f"package faulty 2.1, entry point Broken = {module}:Broken" in message
    assert words in message


def test_a_package_that_is_no_good_leaves_other_plugins_alone(site: Site) -> None:
    site.install("import no_such_module_anywhere", "Broken", package="faulty")
    site.install(PICKY, "Picky")
    load_policy(policy({"name": "Picky", "args": {"disk": "ssd"}}))
    assert PLUGINS.get("Broken") is None
    assert [where for where, _ in refused({"name": "Brokn"})] == ["spec.predicates[0].name"]


def test_a_package_that_is_no_good_leaves_the_last_good_generation_and_other_policies_in_force(site: Site) -> None:
    site.install("import no_such_module_anywhere", "Broken", package="faulty")
    book = PolicyStore(Clock())
    book.observe(make_policy("mine"))
    book.observe(make_policy("other", schedulerName="other"))
    book.observe(make_policy("mine", generation=2, predicates=[{"name": "Broken"}]))
    assert (in_force(book), in_force(book, "other")) == ("mine/1", "other/1")
    accepted = condition(book.statuses()["mine"], "Accepted")
    assert accepted["status"] == "False"
    assert "package faulty 1.0" in accepted["message"]
    assert "No module named 'no_such_module_anywhere'" in accepted["message"]


def test_a_package_that_was_mended_is_imported_after_all(site: Site) -> None:
    module = site.install("import no_such_module_anywhere", "Picky")
    assert refused({"name": "Picky", "args": {"disk": "ssd"}})
    site.write(module, PICKY)
    site.offer("touch", "1.0", {})
    load_policy(policy({"name": "Picky", "args": {"disk": "ssd"}}))


@pytest.mark.parametrize("name", ["NodeAffinity", "MatchNodeSelector", "LeastRequestedPriority", "LabelPreference"])
def test_a_name_of_our_own_is_never_somebody_elses_and_a_warning_says_so_once(
    site: Site, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    site.write("hostile", "raise SystemExit")
    site.offer("hostile", "6.6", {name: f"hostile:{name}"})
    with caplog.at_level(logging.WARNING, logger="berth.engine.custom_plugins.entry_points"):
        assert PLUGINS.get(name) is OWN_PLUGINS.get(name)
        assert (name in PLUGINS) == (name in OWN_PLUGINS)
        list(PLUGINS)
        site.offer("more", "1.0", {})
        list(PLUGINS)
    assert [record.getMessage() for record in caplog.records] == [
        f"the plugin of package hostile 6.6, entry point {name} = hostile:{name} is not used: "
        f"{name} is a name of Berth's own"
    ]


def test_a_name_that_two_packages_offer_is_neithers(site: Site) -> None:
    site.install(PICKY, "Picky", package="one")
    site.install(PICKY, "Picky", package="two")
    [(_, message)] = refused({"name": "Picky"})
    assert "several packages offer Picky: package one 1.0" in message
    assert "package two 1.0" in message


def test_a_name_that_is_nearly_that_of_an_outside_plugin_is_guessed(site: Site) -> None:
    site.install(PICKY, "Picky")
    assert "Picky" in refused({"name": "Pickyy"})[0][1]


def test_a_plugin_in_the_wrong_list_is_refused(site: Site) -> None:
    site.install(PICKY, "Picky")
    assert refused(priorities=[{"name": "Picky"}])[0] == (
        "spec.priorities[0].name",
        "Picky only filters nodes: it belongs into spec.predicates",
    )


def test_arguments_that_a_plugin_refuses_or_stumbles_over_are_said_with_their_path(site: Site) -> None:
    site.install(PICKY, "Picky")
    assert refused({"name": "Picky", "args": {"disc": "ssd"}})[0][0] == "spec.predicates[0].args.disc"
    [(where, message)] = refused({"name": "Picky"})
    assert where == "spec.predicates[0].args"
    assert message.startswith("Picky cannot be made from these: KeyError: 'disk' (acme_")


def test_a_plugin_cannot_change_the_arguments_of_the_policy(site: Site) -> None:
    site.install(PICKY, "Picky")
    active = load_policy(policy({"name": "Picky", "args": {"disk": "ssd"}}))
    assert active.policy.predicates[-1].args == {"disk": "ssd"}


# --- classes ---------------------------------------------------------------------------------------------------------


class Fine(FilterPlugin, ScorePlugin):
    def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
        return refuse_where(np.zeros(row_count(rows), dtype=np.bool_), Code.UNSCHEDULABLE, "never")

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        return np.zeros(row_count(rows), dtype=np.int64)


class Failing(Fine):
    """Fails while it is told to."""

    failing = False


async def judged_later(self: Fine, query: Query, state: State, rows: Rows) -> None:
    return None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"filters": False, "scores": False}, "has neither filter() nor score()"),
        ({"filter": FilterPlugin.filter}, "is a FilterPlugin and has no method filter()"),
        ({"score": ScorePlugin.score}, "is a ScorePlugin and has no method score()"),
        ({"bounds": lambda self, scores: 0}, "has one of bounds() and scale() without the other"),
        ({"retry_events": {"NodeAdd"}}, "retry_events is not a set of berth.engine.events.Event"),
        ({"filter": judged_later}, "filter() is a coroutine"),
    ],
)
def test_a_class_that_lacks_what_the_contract_needs_is_refused_in_words(body: dict[str, object], words: str) -> None:
    assert problem_of(Fine) == ""
    assert words in problem_of(type("Odd", (Fine,), body))


def test_a_class_may_not_build_on_a_plugin_of_ours() -> None:
    assert "TaintToleration" in problem_of(type("Mine", (TaintToleration,), {}))


def test_a_per_node_class_needs_something_to_say_and_a_known_word_for_what_it_reads() -> None:
    assert "neither fits() nor points()" in problem_of(type("Mute", (PerNode,), {}))
    kind = type("Odd", (PerNode,), {"fits": lambda self, pod, node: True, "reads": "labels"})
    assert "Reads.LABELS" in problem_of(kind)


def test_what_a_class_does_not_say_is_taken_for_the_worst() -> None:
    plugin = make(Fine)
    assert plugin.retry_events == ANY
    assert plugin.dependencies == Dependencies()
    declared = Dependencies(pods=PodsRead.NONE, node_local=True)
    plugin = make(type("Said", (Fine,), {"retry_events": {Event.NODE_ADDED}, "dependencies": declared}))
    assert plugin.retry_events == frozenset({Event.NODE_ADDED})
    assert plugin.dependencies == declared


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"dependencies": {"node_local": True}}, "not berth.engine.plugin.Dependencies"),
        ({"dependencies": Dependencies(score_axes=lambda query, state: None)}, "score_axes and score_groups()"),
        ({"score_groups": lambda self, query, state, groups: None}, "score_axes and score_groups()"),
        ({"dependencies": Dependencies(pods=PodsRead.USAGE)}, "no method filter_with_free()"),
    ],
)
def test_dependencies_that_cannot_be_are_refused_when_the_plugin_is_made(body: dict[str, object], words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        make(odd(body))


def test_the_guard_is_around_the_methods_that_a_class_has_and_no_others() -> None:
    kind = guarded(Fine, "Fine")
    assert kind.filter is not Fine.filter
    assert kind.pre_filter is FilterPlugin.pre_filter
    for method in ("bounds", "scale", "normalize"):
        assert getattr(kind, method) is getattr(ScorePlugin, method)
    assert all(type(make_filter(n)) is OWN_PLUGINS[n] for n in ("NodeName", "TaintToleration"))


# --- answers ---------------------------------------------------------------------------------------------------------

STATE = [make_node("a"), make_node("b"), make_node("c")]


NOT_A_SET: Any = ["a"]


def codes(values: Sequence[int], dtype: type[np.integer[Any]] = np.int8) -> Verdicts:
    column = np.array(values, dtype=dtype)
    return Verdicts(column, column.astype(np.int64), lambda cause: ("because",))


def odd(body: Mapping[str, object], base: type[Fine] = Fine) -> type[Fine]:
    """A class with some methods or attributes of its own."""
    made: type[Fine] = type("Odd", (base,), dict(body))
    return made


def deciding(**methods: object) -> Placement | Diagnosis:
    """What a pipeline says whose only filter and score is a plugin with these methods."""
    plugin = make(odd(methods), name="Odd")
    return Pipeline([plugin], [(plugin, 1)]).decide(a_pod(), cluster(STATE), Random(0))


def raising(*given: object) -> NoReturn:
    raise KeyError("boom")


def leaving(*given: object) -> NoReturn:
    raise SystemExit(1)


def cancelling(*given: object) -> NoReturn:
    raise CancelledError("never mind")


def gives(answer: object) -> Callable[..., Any]:
    return lambda *given: answer


@pytest.mark.parametrize("method", ["concerns", "pre_filter", "filter", "pre_score", "score", "normalize"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [(raising, "KeyError: 'boom'"), (leaving, "SystemExit: 1"), (cancelling, "CancelledError: never mind")],
)
def test_what_a_plugin_raises_comes_out_as_its_failure(method: str, fault: Callable[..., object], words: str) -> None:
    with pytest.raises(PluginFailed, match=rf"plugin Odd failed: {method}\(\) raised {words}"):
        deciding(**{method: fault})


@pytest.mark.parametrize("field", ["static_key", "filter_version", "score_version"])
def test_what_a_function_of_its_dependencies_raises_comes_out_as_its_failure(field: str) -> None:
    functions: dict[str, Any] = {field: raising}
    with pytest.raises(PluginFailed, match=rf"plugin Odd failed: dependencies.{field}\(\) raised KeyError: 'boom'"):
        deciding(**declaring(**functions))


def declaring(**fields: Any) -> dict[str, object]:
    return {"dependencies": Dependencies(**fields)}


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"filter": gives(None)}, "filter() gave None, not Verdicts"),
        ({"filter": gives(codes([0, 0]))}, "filter() gave int8[2], not int8[3]"),
        ({"filter": gives(codes([0, 0, 0], np.int64))}, "filter() gave int64[3], not int8[3]"),
        ({"filter": gives(codes([0, 5, 0]))}, "filter() gave codes from 0 to 5"),
        ({"filter": gives(codes([0, -1, 0]))}, "filter() gave codes from -1 to 0"),
        ({"pre_filter": gives(True)}, "pre_filter() gave True, not a PreFilter"),
        ({"pre_filter": gives(PreFilter(code=Code.UNRESOLVABLE))}, "pre_filter() gave a tuple, not a tuple of reasons"),
        ({"pre_filter": gives(PreFilter(nodes=NOT_A_SET))}, "pre_filter() gave a list for nodes"),
        ({"concerns": gives(None)}, "concerns() gave None, not True or False"),
        (declaring(static_key=gives([])), "dependencies.static_key() gave a list, which has no hash"),
        (declaring(version=gives({})), "dependencies.filter_version() gave a dict, which has no hash"),
        ({"score": gives([1, 2, 3])}, "score() gave a list, not int64[3]"),
        ({"score": gives(np.zeros(3))}, "score() gave float64[3], not int64[3]"),
        ({"score": gives(np.zeros((3, 1), dtype=np.int64))}, "score() gave int64[3, 1], not int64[3]"),
        ({"score": gives(np.array([0, 101, 0]))}, "score() gave scores from 0 to 101, not 0 to 100"),
        ({"score": gives(np.array([-1, 0, 0]))}, "score() gave scores from -1 to 0, not 0 to 100"),
        ({"normalize": gives(np.array([0, 200, 0]))}, "normalize() gave scores from 0 to 200, not 0 to 100"),
        ({"normalize": gives(np.array([0, 2]))}, "normalize() gave int64[2], not int64[3]"),
        ({"bounds": gives(None), "scale": gives(None)}, "bounds() gave None"),
        ({"bounds": gives([]), "scale": gives(None)}, "bounds() gave a list, which has no hash"),
        ({"bounds": gives(1), "scale": gives(None)}, "scale() gave None, not int64[3]"),
        ({"pre_score": gives(1)}, "pre_score() gave 1, not True or False"),
    ],
)
def test_what_is_no_answer_comes_out_as_the_plugins_failure(methods: dict[str, object], words: str) -> None:
    with pytest.raises(PluginFailed) as failed:
        deciding(**methods)
    assert failed.value.plugin == "Odd"
    assert words in failed.value.problem


@pytest.mark.parametrize("fault", [raising, gives("because"), gives(()), gives((1,))])
def test_words_that_are_none_are_the_plugins_failure_too(fault: Callable[..., Any]) -> None:
    ones = np.ones(3, dtype=np.int8)
    with pytest.raises(PluginFailed, match=r"describe\(\) of filter\(\)"):
        deciding(filter=gives(Verdicts(ones, ones.astype(np.int64), fault)))
    with pytest.raises(PluginFailed, match=r"causes of filter\(\)"):
        deciding(filter=gives(Verdicts(ones, raising, gives(("because",)))))


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("fits_row", None),
        ("score_row", 1.5),
        ("score_row", 101),
        ("take_failures", None),
    ],
)
def test_the_rarer_methods_are_guarded_as_well(method: str, answer: object) -> None:
    state = cluster(STATE)
    query = Query(a_pod(), state.table)
    plugin = make(odd({method: gives(answer)}))
    with pytest.raises(PluginFailed, match=rf"{method}\(\) gave"):
        getattr(plugin, method)(*(() if method == "take_failures" else (query, state, 0)))


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ("affected_rows", [-1]),
        ("affected_rows", [99]),
        ("affected_rows", ["a"]),
        ("rows_with_pods", np.ones(3, dtype=np.bool_)),
    ],
)
def test_the_rarer_functions_of_dependencies_are_guarded_as_well(field: str, answer: object) -> None:
    state = cluster(STATE)
    plugin = make(odd(declaring(**{field: gives(answer)})))
    more = (0, 1, [0]) if field == "affected_rows" else ()
    with pytest.raises(PluginFailed, match=rf"dependencies.{field}\(\) gave"):
        getattr(plugin.dependencies, field)(Query(a_pod(), state.table), state, *more)


ZONES = [make_node(name, labels={"zone": zone}) for name, zone in (("a", "x"), ("b", "y"), ("c", "y"))]


def zone_axes(query: Query, state: State) -> list[Axis]:
    axes: list[Axis] = query.plan.setdefault("ByZone", [Axis(state.table.domains("zone"))])
    return axes


class ByZone(Fine):
    """Likes the zone with the fewest nodes."""

    dependencies = Dependencies(score_axes=zone_axes)

    def score_groups(self, query: Query, state: State, groups: EquivalenceGroups) -> Int64Column:
        return 100 - groups.feasible

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        ids = state.table.label("zone")[0][rows]
        return 100 - np.bincount(ids)[ids]


def test_a_plugin_may_score_by_groups() -> None:
    pipeline = Pipeline([], [(make(ByZone), 1)], TieBreak.FIRST)
    assert [as_placement(pipeline.decide(a_pod(), cluster(ZONES), Random(0))).node for _ in range(2)] == ["a", "a"]


@pytest.mark.parametrize(
    ("nodes", "methods", "words"),
    [
        (STATE, {}, "dependencies.score_axes() gave the domains of a label that not every node has"),
        (ZONES, declaring(score_axes=gives([1])), "dependencies.score_axes() gave a list, not axes"),
        (ZONES, {"score_groups": gives(np.zeros(3))}, "score_groups() gave float64[3], not int64[2]"),
        (ZONES, {"score_groups": gives(np.array([101, 0]))}, "score_groups() gave scores from 0 to 101"),
        (ZONES, {"normalized_groups": gives([1])}, "normalized_groups() gave a list, not 2 scores"),
        (ZONES, {"normalized_groups": gives([0, 1.5])}, "normalized_groups() gave 1.5, not a whole number"),
        (ZONES, {"normalized_groups": gives([101, 0])}, "normalized_groups() gave scores from 0 to 101"),
    ],
)
def test_what_is_no_answer_for_groups_is_the_plugins_failure(
    nodes: Sequence[Body], methods: dict[str, object], words: str
) -> None:
    plugin = make(odd(methods, ByZone))
    with pytest.raises(PluginFailed) as failed:
        Pipeline([], [(plugin, 1)]).decide(a_pod(), cluster(nodes), Random(0))
    assert words in failed.value.problem


def test_a_failure_inside_a_failure_is_told_once() -> None:
    def fits_row(self: Fine, query: Query, state: State, row: int) -> bool:
        return bool(self.filter(query, state, np.array([row])).codes[0] == 0)

    state = cluster(STATE)
    plugin = make(odd({"filter": raising, "fits_row": fits_row}))
    with pytest.raises(PluginFailed) as failed:
        plugin.fits_row(Query(a_pod(), state.table), state, 0)
    assert failed.value.problem.startswith("filter() raised KeyError: 'boom'")


def test_a_plugin_is_asked_about_rows_with_a_node_only() -> None:
    def score(self: Fine, query: Query, state: State, rows: Rows) -> Int64Column:
        return np.array([len(state.table.name(int(row))) for row in np.arange(9)[rows]], dtype=np.int64)

    state = cluster([make_node("gone"), *STATE])
    state.table.remove_node("gone")
    plugin = make(odd({"score": score, **declaring(static_key=gives(()))}))
    pipeline = Pipeline([], [(plugin, 1)], TieBreak.FIRST)
    assert pipeline.decide(a_pod(), state, Random(0)) == Placement("a", 3, 3)


def test_columns_that_a_plugin_keeps_for_itself_are_not_written_by_the_engine() -> None:
    kept = np.array([1, 2, 3])

    class Keeps(Fine):
        dependencies = Dependencies(node_local=True, version=gives(()))

        def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
            return kept

        def score_row(self, query: Query, state: State, row: int) -> int:
            return 77

        def bounds(self, scores: Int64Column) -> object:
            return 0

        def scale(self, scores: Int64Column, bounds: object) -> Int64Column:
            return scores

    state, plugin = cluster(STATE), make(Keeps)
    pipeline = Pipeline([], [(plugin, 1)], TieBreak.FIRST)
    for number in range(3):
        pod = a_pod(f"p{number}", uid=f"u{number}")
        state.table.add_pod(pod, as_placement(pipeline.decide(pod, state, Random(0))).node)
    assert kept.tolist() == [1, 2, 3]


def test_scores_outside_their_bounds_are_cut() -> None:
    plugin = make(odd({"bounds": gives(0), "scale": gives(np.array([-7, 3, 4000]))}))
    assert plugin.scale(np.zeros(3, dtype=np.int64), 0).tolist() == [0, 3, 100]


# --- what is kept ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["version", "filter", "pre_filter", "fits_row", "score", "score_row", "scale"])
@pytest.mark.parametrize("version", [None, ()])
def test_a_plugin_that_fails_once_leaves_no_answer_behind_that_is_half_right(
    method: str, version: tuple[()] | None
) -> None:
    """It fails in the middle of bringing the answers up to date, then works again: as if it had never failed."""

    def kind() -> type[Failing]:
        class Flaky(Failing):
            def __init__(self, args: Mapping[str, Any]) -> None:
                self.dependencies = Dependencies(node_local=True, version=self.version)

            def version(self, query: Query, state: State) -> Hashable | None:
                return version

            def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
                return refuse_where(state.table.used[0, rows] >= 2000, Code.UNSCHEDULABLE, "full")

            def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
                return state.table.used[0, rows] // 1000

            def bounds(self, scores: Int64Column) -> object:
                return int(scores.max(initial=0))

            def scale(self, scores: Int64Column, bounds: object) -> Int64Column:
                return scores * 10

        for name in ("version", "filter", "pre_filter", "fits_row", "score", "score_row", "scale"):
            own = getattr(Flaky, name)

            def ask(self: Fine, *given: object, own: Callable[..., object] = own, name: str = name) -> object:
                if Flaky.failing and name == method:
                    raise OSError("now and then")
                return own(self, *given)

            setattr(Flaky, name, ask)
        return Flaky

    state, flaky = cluster(STATE), kind()

    def pipeline(of: type[Fine]) -> Pipeline:
        rest = make_filter("NodeResourcesFit"), make_score("NodeResourcesFit")
        return Pipeline([rest[0], make(of)], [(rest[1], 1), (make(of), 1)], TieBreak.FIRST)

    keeping, failures = pipeline(flaky), 0
    for number in range(7):
        pod = a_pod(f"p{number}", uid=f"u{number}")
        flaky.failing = number in (2, 4)
        try:
            said = keeping.decide(pod, state, Random(0))
        except PluginFailed:
            failures += 1
            flaky.failing = False
            said = keeping.decide(pod, state, Random(0))
        flaky.failing = False
        assert said == pipeline(flaky).decide(pod, state, Random(0))
        if isinstance(said, Placement):
            state.table.add_pod(pod, said.node)
    rows_alone = method in ("fits_row", "score_row")
    assert failures or (rows_alone if version is None else method == "pre_filter")  # these are not asked then


def test_a_plugin_that_fails_after_another_was_asked_again_does_not_hide_what_that_one_said() -> None:
    """The first filter refuses b once a has pods, which reaches beyond the node that changed; the second fails."""

    class Neighbours(Fine):
        dependencies = Dependencies(
            version=lambda query, state: state.table.mark,
            affected_rows=lambda query, state, before, now, rows: range(state.table.span),
        )

        def filter(self, query: Query, state: State, rows: Rows) -> Verdicts:
            away = np.zeros(state.table.capacity, dtype=np.bool_)
            away[: 2 if state.table.pods_on("a") else 0] = True
            return refuse_where(away[rows], Code.UNSCHEDULABLE, "node(s) were next to pods")

    class Second(Fine):
        failing = False

        def __init__(self, args: Mapping[str, Any]) -> None:
            self.dependencies = Dependencies(version=self.version)

        def version(self, query: Query, state: State) -> Hashable | None:
            if Second.failing:
                raise OSError("now and then")
            return ()

    state = cluster([*STATE, make_node("d")])
    pipeline = Pipeline([make(Neighbours), make(Second)], [], TieBreak.FIRST)
    one = a_pod("one", uid="one")
    state.table.add_pod(one, as_placement(pipeline.decide(one, state, Random(0))).node)
    Second.failing = True
    with pytest.raises(PluginFailed, match="plugin Second failed"):
        pipeline.decide(a_pod("two"), state, Random(0))
    Second.failing = False
    assert pipeline.decide(a_pod("two"), state, Random(0)) == Placement("c", 4, 2)


def test_answers_without_a_version_are_asked_for_anew_and_about_the_pod_itself() -> None:
    """Pods that are alike to Kubernetes' plugins may differ to another: by name, or by priority."""

    def refuse(self: Fine, query: Query, state: State, rows: Rows) -> Verdicts:
        names = [state.table.name(int(row)) for row in np.arange(9)[rows]]
        away = np.array([name not in (query.pod.name[-1], "z") for name in names])
        return refuse_where(away, Code.UNSCHEDULABLE, "not mine")

    state = cluster([*STATE, make_node("z")])
    pipeline = Pipeline([make(type("ByName", (Fine,), {"filter": refuse}))], [], TieBreak.FIRST)
    nodes = [as_placement(pipeline.decide(a_pod(f"pod-{letter}"), state, Random(0))).node for letter in "abcacb"]
    assert nodes == list("abcacb")


def test_preemption_asks_a_plugin_that_says_nothing_of_pods_about_every_node_without_its_victims() -> None:
    """On node a it wants company, and nothing in its class says so."""

    def wants_company(self: Fine, query: Query, state: State, rows: Rows) -> Verdicts:
        alone = [name == "a" and not state.table.pods_on(name) for name in map(state.table.name, np.arange(9)[rows])]
        return refuse_where(np.array(alone), Code.UNSCHEDULABLE, "node(s) were lonely")

    small = [make_node(name, cpu="1") for name in "ab"]
    low = [make_pod(f"low-{n}", uid=n, node=n, cpu="1", priority=p) for n, p in (("a", 1), ("b", 5))]
    plugin = make(odd({"filter": wants_company}))
    pipeline, state = Pipeline([make_filter("NodeResourcesFit"), plugin], []), cluster([*small, *low])
    query = Query(a_pod("high", priority=10), state.table)
    found = Preemption().preempt(pipeline, query, pipeline.survey(query, state), state, Random(0))
    assert isinstance(found, Nomination)
    assert found.node == "b"


def test_a_diagnosis_of_an_outside_plugin_that_names_no_events_is_retried_on_any() -> None:
    refusing = {"filter": lambda self, query, state, rows: codes([1] * row_count(rows))}
    said = deciding(**refusing)
    assert isinstance(said, Diagnosis)
    assert said.message == "0/3 nodes are available: 3 because."
    assert said.retry_events == ANY


def test_bad_arguments_stay_bad_arguments() -> None:
    class Choosy(Fine):
        def __init__(self, args: Mapping[str, Any]) -> None:
            refuse_unknown(args, "some")

    with pytest.raises(BadArgument, match="known are some"):
        make(Choosy, {"other": 1})
