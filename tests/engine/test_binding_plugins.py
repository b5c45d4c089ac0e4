"""The contract of plugins that take part in what happens between a decision and the bind."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.engine.binding_points import BindingPlugin, Permit, takes_part
from berth.engine.custom_plugins.sandbox import guarded, problem_of
from berth.engine.per_node import NodeView, PerNode
from berth.engine.testing import check_contract, make
from berth.model import Pod, parse_pod
from berth.policy import PolicyError, load_policy
from engine.packages import Site
from policy.builders import make_policy
from support.builders import make_pod

PATIENT = """
    from berth.engine.binding_points import BindingPlugin, Permit

    class Patient(BindingPlugin):
        def permit(self, pod, node_name):
            return Permit.wait(10)
"""


class Reserving(BindingPlugin):
    def reserve(self, pod: Pod, node_name: str) -> None:
        return None


class Both(PerNode, BindingPlugin):
    def fits(self, pod: Pod, node: NodeView) -> bool:
        return True

    async def pre_bind(self, pod: Pod, node_name: str) -> None:
        return None


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(tmp_path)
    folder = Site(tmp_path)
    yield folder
    folder.forget()


def test_a_permit_is_one_of_three() -> None:
    assert Permit.allow() == Permit("allow")
    assert Permit.reject("no").reason == "no"
    assert Permit.wait(7).seconds == 7


NO_TEXT: Any = None
NO_PERMIT: Any = "perhaps"


@pytest.mark.parametrize(
    ("make_permit", "words"),
    [
        (lambda: Permit.reject(""), "a rejection has a reason, not ''"),
        (lambda: Permit.reject(NO_TEXT), "a rejection has a reason, not None"),
        (lambda: Permit.wait(0), "a pod waits for more than 0 seconds, not 0"),
        (lambda: Permit.wait(float("nan")), "a pod waits for more than 0 seconds, not nan"),
        (lambda: Permit(NO_PERMIT), "a permit is allow, reject or wait, not 'perhaps'"),
    ],
)
def test_a_permit_that_makes_no_sense_is_refused(make_permit: Callable[[], Permit], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_permit()


def test_a_plugin_takes_part_where_it_has_a_method_of_its_own() -> None:
    assert takes_part(Reserving)
    assert takes_part(Reserving, "reserve")
    assert not takes_part(Reserving, "permit", "bind")
    assert not takes_part(PerNode)
    assert takes_part(guarded(Reserving, "R"), "reserve")  # and so does what a policy has of it
    assert not takes_part(guarded(Reserving, "R"), "pre_bind")


def test_a_plugin_may_take_part_alone_or_beside_what_it_filters() -> None:
    assert problem_of(Reserving) == ""
    assert problem_of(Both) == ""
    assert (Reserving.filters, Both.filters) == (False, True)


def test_outside_a_scheduler_nobody_waits() -> None:
    plugin = make(Reserving)
    assert isinstance(plugin, BindingPlugin)
    assert plugin.waiting.pods() == ()
    assert not plugin.waiting.allow("x")
    assert not plugin.waiting.reject("x", "no")


def _class(name: str, **methods: object) -> type[BindingPlugin]:
    return type(name, (BindingPlugin,), methods)


async def _later(self: BindingPlugin, pod: Pod, node_name: str) -> None:
    return None


def _now(self: BindingPlugin, pod: Pod, node_name: str) -> None:
    return None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            _class("Idle"),
            r"Idle has neither filter\(\) nor score\(\) nor a method of berth.engine.binding_points.BindingPlugin",
        ),
        (_class("Late", permit=_later), r"Late.permit\(\) is a coroutine: only pre_bind\(\) and bind\(\) may wait"),
        (_class("Late", unreserve=_later), r"Late.unreserve\(\) is a coroutine"),
        (_class("Soon", bind=_now), r"Soon.bind\(\) is not a coroutine: write async def bind\(...\)"),
        (_class("Soon", pre_bind=_now), r"Soon.pre_bind\(\) is not a coroutine"),
        (BindingPlugin, "BindingPlugin has to derive from"),
    ],
)
def test_a_class_that_cannot_take_part_is_refused_in_words(kind: type[BindingPlugin], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        make(kind)


def test_a_policy_names_it_among_its_predicates_and_asks_it_about_no_node(site: Site) -> None:
    site.install(PATIENT, "Patient")
    active = load_policy(make_policy(predicates=[{"name": "patience", "plugin": "Patient"}]))
    assert [plugin.name for plugin in active.stages] == ["patience"]
    assert "patience" not in [plugin.name for plugin in active.pipeline.filters]


def test_the_stages_of_a_policy_are_in_the_order_of_its_predicates(site: Site) -> None:
    site.install(PATIENT, "Patient")
    entries = [{"name": name, "plugin": "Patient"} for name in ("b", "a")]
    assert [plugin.name for plugin in load_policy(make_policy(predicates=entries)).stages] == ["b", "a"]
    assert load_policy(make_policy()).stages == ()


def test_a_plugin_that_only_takes_part_is_no_priority(site: Site) -> None:
    site.install(PATIENT, "Patient")
    with pytest.raises(PolicyError, match=r"spec.priorities\[0\].name"):
        load_policy(make_policy(priorities=[{"name": "Patient"}]))


def test_the_contract_of_columns_can_be_tried_on_it_too() -> None:
    node = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
    pod = parse_pod(make_pod("web"))
    for kind in (Reserving, Both):
        check_contract(kind, {}, [node, {**node, "metadata": {"name": "b"}}], [pod])
