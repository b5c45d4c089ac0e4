"""Test helpers for authors of plugins: a cluster from manifests, and one call that checks the plugin contract.

    state = cluster([node_manifest, ..., pod_manifest, ...])
    check_contract(RackPower, {"maxWatts": 8000}, manifests, pods)

`check_contract` raises an AssertionError that names the violation, for example that a cached answer is out of date. The
suite itself is contract.py. Berth's own plugins pass the same suite.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import TypeVar

from berth.engine.contract import CHECKS, Body, ContractCase, scores, verdicts
from berth.engine.custom_plugins.sandbox import guarded, problem_of
from berth.engine.plugin import Plugin
from berth.engine.registry import OWN_PLUGINS
from berth.engine.state.state import State
from berth.model import Node, Pod, object_key, parse

__all__ = ["check_contract", "cluster", "make", "scores", "verdicts"]

P = TypeVar("P", bound=Plugin)


def cluster(bodies: Iterable[Body]) -> State:
    """Returns a state with the objects of these manifests, which need no UID; pods without a node are left out."""
    state = State()
    for body in sorted(map(_with_uid, bodies), key=lambda body: bool(body["kind"] == "Pod")):
        record = parse(body["kind"], body)
        if isinstance(record, Node):
            state.table.set_node(record)
        elif not isinstance(record, Pod):
            state.put(body["kind"], object_key(body), record)
        elif record.node_name:
            state.table.add_pod(record, record.node_name)
    return state


def _with_uid(body: Body) -> Body:
    return {**body, "metadata": {"uid": f"{body['kind']} {object_key(body)}", **body["metadata"]}}


def make(kind: type[P], args: Body | None = None, name: str = "") -> P:
    """Returns a plugin as in a policy: sandboxed, and with the name of its entry point (by default, of its class).

    Berth's own plugins are not sandboxed.
    """
    if kind in OWN_PLUGINS.values():
        return kind(deepcopy(dict(args or {})))
    problem = problem_of(kind)
    assert not problem, problem
    return guarded(kind, name or kind.__name__)(deepcopy(dict(args or {})))


def check_contract(kind: type[Plugin], args: Body | None, bodies: Sequence[Body], pods: Sequence[Pod]) -> None:
    """Checks that the plugin fulfils the contract for these pods on this cluster."""
    case = case_of(kind, args, bodies, pods)
    for check in CHECKS:
        check(case)


def case_of(kind: type[Plugin], args: Body | None, bodies: Sequence[Body], pods: Sequence[Pod]) -> ContractCase:
    """Returns what the checks of the contract take."""

    def make_cluster(reverse: bool = False, nodes: int | None = None) -> State:
        chosen = [body for body in bodies if body["kind"] == "Node"][:nodes]
        rest = [body for body in bodies if body["kind"] != "Node"]
        return cluster(reversed([*chosen, *rest]) if reverse else [*chosen, *rest])

    return ContractCase(lambda given: make(kind, given), dict(args or {}), make_cluster, pods)
