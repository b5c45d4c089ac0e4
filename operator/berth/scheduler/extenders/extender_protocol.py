"""The JSON of kube-scheduler's extender API, v1: requests and answers.

    filter, prioritize    Pod, and Nodes (objects) or, for a nodeCacheCapable extender, NodeNames
    preempt               Pod, and NodeNameToVictims (objects) or, likewise, NodeNameToMetaVictims (UIDs)
    bind                  PodName, PodNamespace, PodUID, Node

A field that is not sent is null, as in kube-scheduler. Answers are read as Go reads them: names of fields in any case,
null for absent, a value of another type is an error. An answer that cannot be used raises `ExtenderFailed`.

Texts of an answer go into events, conditions and status, so they are sanitised here: one line, no control characters,
limited length, and a limited number of different reasons per answer.

Bodies of pods and nodes are passed through unchanged, in whatever form the two ports here agree on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from berth.engine.extender_result import Refusal
from berth.engine.verdict import Code
from berth.model import Node, Pod
from berth.policy.addresses import ExtenderAddresses as ExtenderAddresses  # re-exported for implementations of Asker
from berth.policy.records import Extender as Extender  # re-exported with Tls: the ports below use them
from berth.policy.records import Mode, Policy
from berth.policy.records import Tls as Tls
from berth.policy.wording import cut, on_one_line

T = TypeVar("T")

SCALE = 10  # scores of plugins go up to 100, those of extenders to 10
SHOWN_MAX_LENGTH = 256  # of a text in an answer
REASONS_MAX = 16  # different reasons of one answer; all further nodes share OTHER_REASON
OTHER_REASON = "refused by an extender for other reasons"
MOST_POINTS = 2**58  # of one extender: the sum over all extenders of a policy fits into 64 bits


class ExtenderFailed(Exception):
    """An extender gave no usable answer; the message is for users."""


class Asker(Protocol):
    """Sends requests to extenders."""

    async def ask(self, extender: Extender, verb: str, body: Mapping[str, object]) -> object:
        """The decoded answer; raises ExtenderFailed, at the latest after the extender's timeout."""
        ...


class Bodies(Protocol):
    """Provides complete API objects."""

    async def pod(self, pod: Pod) -> object:
        """The pod, ready to be part of a request; None if it does not exist. Raises Unavailable."""
        ...

    async def nodes(self, nodes: Sequence[Node]) -> Mapping[str, object]:
        """The nodes by name, ready to be part of a request, without those that are gone. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that the extender allows, and the reasons for the others."""

    allowed: tuple[str, ...]
    refused: Mapping[str, Refusal]


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims on a node, by UID, and the number of disruption budgets that their eviction violates."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Needs:
    """Which complete objects extenders may need: pending pods with these scheduler names, and nodes."""

    scheduler_names: frozenset[str] = frozenset()
    nodes: bool = False


def needs_of(policies: Iterable[Policy]) -> Needs:
    """The needs of the extenders of these policies; extenders of policies in Shadow mode are not called."""
    extended = [policy for policy in policies if policy.extenders and policy.mode is Mode.ACTIVE]
    return Needs(
        frozenset(policy.scheduler_name for policy in extended),
        any(not extender.node_cache_capable for policy in extended for extender in policy.extenders),
    )


def interested(policy: Policy, pod: Pod) -> tuple[Extender, ...]:
    """The extenders to call for the pod, in order: ignorable ones last."""
    if not policy.extenders:
        return ()
    asked = [extender for extender in policy.extenders if _is_interested(extender, pod)]
    return tuple(sorted(asked, key=lambda extender: extender.ignorable))


def _is_interested(extender: Extender, pod: Pod) -> bool:
    managed = extender.managed_resources
    return not managed or any(resource.name in pod.extended_resources for resource in managed)


# --- requests --------------------------------------------------------------------------------------------------------


def about_names(pod: object, names: Iterable[str]) -> Mapping[str, object]:
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}


def about_nodes(pod: object, nodes: Iterable[object]) -> Mapping[str, object]:
    return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}


def about_binding(pod: Pod, node_name: str) -> Mapping[str, object]:
    return {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}


def about_victim_uids(pod: object, victims: Mapping[str, Victims]) -> Mapping[str, object]:
    given = {
        node: {"Pods": [{"UID": uid} for uid in said.uids], "NumPDBViolations": said.violations}
        for node, said in victims.items()
    }
    return {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": given}


def about_victims(
    pod: object, victims: Mapping[str, Victims], body_of: Callable[[str], object]
) -> Mapping[str, object]:
    given = {
        node: {
            "Pods": [body for body in map(body_of, said.uids) if body is not None],
            "NumPDBViolations": said.violations,
        }
        for node, said in victims.items()
    }
    return {"Pod": pod, "NodeNameToVictims": given, "NodeNameToMetaVictims": None}


# --- answers ---------------------------------------------------------------------------------------------------------


def read_filtered(extender: Extender, answer: object, asked: Collection[str]) -> Filtered:
    """The answer of a filter call about the nodes `asked`."""
    body = _mapping(answer, "it")
    _raise_error(body)
    names = _texts(_field(body, "NodeNames"), "NodeNames") if extender.node_cache_capable else None
    if names is None:
        names = _names_of(_field(body, "Nodes"))
    unknown = next((name for name in names or () if name not in asked), None)
    if unknown is not None:
        raise ExtenderFailed(
            f'extender "{extender.url_prefix}" claims a filtered node "{shown(unknown)}" which is not found in the '
            "input node list"
        )
    refused = _reasons(body, "FailedNodes", Code.UNSCHEDULABLE)
    refused |= _reasons(body, "FailedAndUnresolvableNodes", Code.UNRESOLVABLE)
    return Filtered(tuple(dict.fromkeys(names or ())), {name: why for name, why in refused.items() if name in asked})


def read_points(extender: Extender, answer: object) -> Mapping[str, int]:
    """The answer of a prioritize call, as points that can be added to the weighted scores of plugins."""
    points: dict[str, int] = {}
    factor = extender.weight * SCALE
    for item in _list(answer, "it") or ():
        host, score = _host_and_score(item)
        points[host] = points.get(host, 0) + score * factor
    for host, value in points.items():
        if abs(value) > MOST_POINTS:
            raise ExtenderFailed(f'the score of node "{shown(host)}" is too large')
    return points


def _host_and_score(item: object) -> tuple[str, int]:
    if type(item) is dict:  # fast path: there may be thousands, and almost all are valid
        host, score = item.get("Host"), item.get("Score")
        if type(host) is str and type(score) is int:
            return host, score
    entry = _mapping(item, "an entry of it")
    return _text(_field(entry, "Host"), "Host"), _number(_field(entry, "Score"), "Score")


def read_bound(answer: object) -> None:
    """Returns if the answer of a bind call says that the pod is bound; raises ExtenderFailed otherwise."""
    _raise_error(_mapping(answer, "it"))


def read_victims(answer: object) -> Mapping[str, Victims]:
    """The answer of a preempt call, by node."""
    found = {}
    nodes = _mapping(_field(_mapping(answer, "it"), "NodeNameToMetaVictims"), "NodeNameToMetaVictims")
    for node, item in nodes.items():
        said = _mapping(item, f"NodeNameToMetaVictims[{shown(node)}]")
        pods = _list(_field(said, "Pods"), "Pods") or ()
        uids = tuple(_text(_field(_mapping(pod, "a pod"), "UID"), "UID") for pod in pods)
        found[node] = Victims(uids, _number(_field(said, "NumPDBViolations"), "NumPDBViolations"))
    return found


def _raise_error(body: Mapping[str, object]) -> None:
    error = _text(_field(body, "Error"), "Error")
    if error:
        raise ExtenderFailed(shown(error))


def _reasons(body: Mapping[str, object], name: str, code: Code) -> dict[str, Refusal]:
    """The refusals by node. Equal reasons share one record; most nodes of an answer have the same few."""
    refusals: dict[str, Refusal] = {}
    found = {}
    for node, reason in _mapping(_field(body, name), name).items():
        text = reason if type(reason) is str else _text(reason, f"{name}[{shown(node)}]")
        refusal = refusals.get(text)
        if refusal is None:
            refusal = Refusal(code, shown(text) if len(refusals) < REASONS_MAX else OTHER_REASON)
            if len(refusals) < REASONS_MAX:
                refusals[text] = refusal
        found[node] = refusal
    return found


def _names_of(value: object) -> tuple[str, ...] | None:
    """The names of the nodes in a NodeList."""
    if value is None:
        return None
    items = _list(_field(_mapping(value, "Nodes"), "items"), "Nodes.items") or ()
    metadata = (_mapping(_field(_mapping(item, "a node"), "metadata"), "metadata") for item in items)
    return tuple(_text(_field(part, "name"), "name") for part in metadata)


def shown(text: str) -> str:
    """A text of an answer, safe to show to users."""
    return cut(on_one_line(text[: SHOWN_MAX_LENGTH + 1]), SHOWN_MAX_LENGTH)


# --- Go's reading of JSON --------------------------------------------------------------------------------------------


def _field(body: Mapping[str, object], name: str) -> object:
    if name in body:
        return body[name]
    return next((value for key, value in body.items() if key.lower() == name.lower()), None)


def _mapping(value: object, what: str) -> Mapping[str, object]:
    return {} if value is None else _typed(value, dict, what, "an object")


def _list(value: object, what: str) -> Sequence[object] | None:
    return None if value is None else _typed(value, list, what, "a list")


def _texts(value: object, what: str) -> tuple[str, ...] | None:
    items = _list(value, what)
    if items is None:
        return None
    return tuple(item if type(item) is str else _text(item, what) for item in items)


def _text(value: object, what: str) -> str:
    return "" if value is None else _typed(value, str, what, "text")


def _number(value: object, what: str) -> int:
    if isinstance(value, bool):
        raise ExtenderFailed(f"the answer cannot be used: {what} is not a whole number")
    return 0 if value is None else _typed(value, int, what, "a whole number")


def _typed(value: object, kind: type[T], what: str, wanted: str) -> T:
    if not isinstance(value, kind):
        raise ExtenderFailed(f"the answer cannot be used: {what} is not {wanted}")
    return value
