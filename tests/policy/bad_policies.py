"""Bad policies, as data: what each says, who refuses it or what degrades, and in which words.

Each is refused or degraded, and none may stop the pods of other policies. `Bad.manifests` are applied together; they
have names and scheduler names of their own, so that all of them fit into one cluster.

    SERVER    the API server refuses it by itself, in a message with `server_field`; offline, Berth refuses it too
    BERTH     the API server takes it; condition Accepted of the last manifest is False, with `field` and `words`
    DEGRADED  it is valid, and condition Degraded becomes True with the first pod, with `words`

`rule`: the API server refuses it by a rule in CEL, not by its schema.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from policy.builders import make_policy

NOWHERE = "http://127.0.0.1:1/scheduler"  # nobody listens on port 1
ZONES = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
ASKED = {"urlPrefix": "http://extender.example:8888", "filterVerb": "filter"}
RUNAWAY = "node.labels.all(a, node.labels.all(b, node.labels.all(c, node.labels.all(d, a + b + c + d != ''))))"


class By(StrEnum):
    SERVER = "API server"
    BERTH = "Berth"
    DEGRADED = "degraded"


@dataclass(frozen=True)
class Bad:
    """One bad policy; `manifests` has what it needs beside it first and the bad one last."""

    title: str
    manifests: tuple[dict[str, Any], ...]
    by: By
    field: str
    words: str = ""
    server_field: str = ""
    rule: bool = False

    @property
    def name(self) -> str:
        name: str = self.manifests[-1]["metadata"]["name"]
        return name

    @property
    def scheduler_name(self) -> str:
        return f"{self.name}-pods"


def _unknown_names() -> Iterator[tuple[str, dict[str, Any]]]:
    yield _berth(
        "a predicate that does not exist",
        "predicates[0].name",
        "did you mean NodePorts?",
        predicates=[{"name": "NodePort"}],
    )
    yield _berth(
        "a priority that does not exist", "priorities[0].name", "is not a plugin", priorities=[{"name": "Astrology"}]
    )
    yield _berth(
        "a typo that would switch off",
        "priorities[0].name",
        "did you mean PodTopologySpread?",
        priorities=[{"name": "PodTopologySpraed", "enabled": False}],
    )
    yield _berth(
        "a predicate among priorities",
        "priorities[0].name",
        "belongs into spec.predicates",
        priorities=[{"name": "NodeName"}],
    )
    yield _berth(
        "a priority among predicates",
        "predicates[0].name",
        "belongs into spec.priorities",
        predicates=[{"name": "ImageLocality"}],
    )
    yield _berth(
        "one more of a plugin that does not exist",
        "predicates[0].plugin",
        "is not a plugin",
        predicates=[{"name": "mine", "plugin": "Fortune"}],
    )
    yield _berth(
        "one more of several plugins",
        "predicates[0].plugin",
        "stands for several",
        predicates=[{"name": "mine", "plugin": "GeneralPredicates"}],
    )
    yield _berth(
        "a name that is another plugin's",
        "predicates[0].name",
        "is the name of another plugin",
        predicates=[{"name": "NodePorts", "plugin": "NodeName"}],
    )
    yield _berth(
        "an order of what is not there", "predicateOrder[0]", "is not among the predicates", predicateOrder=["NodePort"]
    )
    yield _berth(
        "two names of one plugin",
        "priorities[1].name",
        "is the same plugin",
        priorities=[{"name": "LeastRequestedPriority"}, {"name": "NodeResourcesFit"}],
    )
    yield _server(
        "one name twice", "predicates[1].name", "predicates[1]", predicates=[{"name": "NodeName"}, {"name": "NodeName"}]
    )
    yield _server("a field that does not exist", "priority", "spec.priority", priority=[])
    yield _server(
        "a field of an entry that does not exist",
        "predicates[0].weight",
        "spec.predicates[0].weight",
        predicates=[{"name": "NodeName", "weight": 2}],
    )


def _wrong_types() -> Iterator[tuple[str, dict[str, Any]]]:
    yield _server("no scheduler name", "schedulerName", "spec.schedulerName", schedulerName=None)
    yield _server("an empty scheduler name", "schedulerName", "spec.schedulerName", schedulerName="")
    yield _server("a scheduler name that is a number", "schedulerName", "spec.schedulerName", schedulerName=7)
    yield _server("predicates that are no list", "predicates", "spec.predicates", predicates={"name": "NodeName"})
    yield _server("an entry that is a text", "predicates[0]", "spec.predicates[0]", predicates=["NodeName"])
    yield _server(
        "an entry without a name", "predicates[0].name", "spec.predicates[0].name", predicates=[{"enabled": False}]
    )
    yield _server(
        "enabled that is a text",
        "predicates[0].enabled",
        "spec.predicates[0].enabled",
        predicates=[{"name": "NodeName", "enabled": "no"}],
    )
    yield _server(
        "arguments that are a list",
        "predicates[0].args",
        "spec.predicates[0].args",
        predicates=[{"name": "NodeName", "args": [1]}],
    )
    yield _server(
        "more entries than there may be",
        "predicates",
        "spec.predicates",
        predicates=[{"name": f"e{n}", "plugin": "NodeName"} for n in range(65)],
    )
    yield _server("a tie-break that does not exist", "tieBreak", "spec.tieBreak", tieBreak="Coin")
    yield _server("a mode that does not exist", "mode", "spec.mode", mode="Off")
    yield _server("parameters that are a list", "parameters", "spec.parameters", parameters=[1])


def _impossible_values() -> Iterator[tuple[str, dict[str, Any]]]:
    yield _server(
        "a weight of 0",
        "priorities[0].weight",
        "spec.priorities[0].weight",
        priorities=[{"name": "ImageLocality", "weight": 0}],
    )
    yield _server(
        "a negative weight",
        "priorities[0].weight",
        "spec.priorities[0].weight",
        priorities=[{"name": "ImageLocality", "weight": -1}],
    )
    yield _server(
        "a weight beyond 32 bits",
        "priorities[0].weight",
        "spec.priorities[0].weight",
        priorities=[{"name": "ImageLocality", "weight": 2**31}],
    )
    yield _server(
        "half a weight",
        "priorities[0].weight",
        "spec.priorities[0].weight",
        priorities=[{"name": "ImageLocality", "weight": 1.5}],
    )
    yield _server(
        "more than all nodes", "percentageOfNodesToScore", "spec.percentageOfNodesToScore", percentageOfNodesToScore=101
    )
    yield _rule(
        "a backoff of no time", "backoff.initialSeconds", "spec.backoff.initialSeconds", backoff={"initialSeconds": 0}
    )
    yield _rule(
        "a backoff that shrinks",
        "backoff.initialSeconds",
        "spec.backoff.initialSeconds",
        backoff={"initialSeconds": 60, "maxSeconds": 5},
    )
    yield _berth(
        "a first backoff above the usual longest",
        "backoff.initialSeconds",
        "maxSeconds 10",
        backoff={"initialSeconds": 60},
    )
    yield _rule(
        "preemption of no candidates",
        "preemption.minCandidateNodesPercentage",
        "spec.preemption.minCandidateNodesPercentage",
        preemption={"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
    )
    yield _server(
        "a bind timeout of less than nothing", "bindTimeoutSeconds", "spec.bindTimeoutSeconds", bindTimeoutSeconds=-1
    )
    yield _rule("a sample of an active policy", "shadow", "spec.shadow", shadow={"samplePercent": 10})
    yield _server(
        "a sample of nothing",
        "shadow.samplePercent",
        "spec.shadow.samplePercent",
        mode="Shadow",
        shadow={"samplePercent": 0},
    )
    yield _berth(
        "an argument that the plugin does not know",
        "predicates[0].args.ignoredResource",
        "unknown argument",
        predicates=[{"name": "NodeResourcesFit", "args": {"ignoredResource": ["a.example/b"]}}],
    )
    yield _berth(
        "a strategy that does not exist",
        "priorities[0].args.scoringStrategy.type",
        "",
        priorities=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Fullest"}}}],
    )


def _selectors_and_constraints() -> Iterator[tuple[str, dict[str, Any]]]:
    within = "podSelector.matchExpressions[0]"
    yield _server(
        "a selector by greater than",
        f"{within}.operator",
        f"spec.{within}.operator",
        podSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
    )
    yield _rule(
        "a selector by one of nothing",
        f"{within}.values",
        f"spec.{within}.values",
        podSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
    )
    yield _server(
        "a selector by a value that no label has",
        "namespaceSelector.matchLabels.team",
        "spec.namespaceSelector.matchLabels.team",
        namespaceSelector={"matchLabels": {"team": "not a label"}},
    )
    yield _berth(
        "a selector by a key that no label has",
        "podSelector.matchLabels",
        "cannot be the key of a label",
        podSelector={"matchLabels": {"te am": "a"}},
    )
    yield _rule(
        "a list of no constraints",
        "defaultConstraints.constraints",
        "spec.defaultConstraints.constraints",
        defaultConstraints={"type": "List"},
    )
    yield _server(
        "a skew of 0",
        "defaultConstraints.constraints[0].maxSkew",
        "spec.defaultConstraints.constraints[0].maxSkew",
        defaultConstraints={"type": "List", "constraints": [{**ZONES, "maxSkew": 0}]},
    )
    yield _berth(
        "spreading said in two places",
        "predicates[0].args.defaultingType",
        "says it too",
        predicates=[{"name": "PodTopologySpread", "args": {"defaultingType": "System"}}],
        defaultConstraints={"type": "None"},
    )


def _expressions() -> Iterator[tuple[str, dict[str, Any]]]:
    def told(title: str, expression: str, words: str = "", key: str = "predicates") -> tuple[str, dict[str, Any]]:
        return _berth(title, f"{key}[0].expression", words, **{key: [{"name": "mine", "expression": expression}]})

    yield told("an expression that cannot be parsed", "node.labels[")
    yield told("an expression of a field that does not exist", "node.colour == 'red'")
    yield told("an expression that compares text with a number", "node.name == 7")
    yield told("a predicate that is a number", "1", "a predicate has to give a bool")
    yield told("a priority that is a bool", "true", "a priority has to give an int", "priorities")
    yield told("an expression that runs away", RUNAWAY)
    yield _server(
        "an expression without end",
        "predicates[0].expression",
        "spec.predicates[0].expression",
        predicates=[{"name": "mine", "expression": "true" + " || true" * 400}],
    )
    yield _berth(
        "an expression with a plugin's name",
        "predicates[0].name",
        "is the name of a plugin",
        predicates=[{"name": "NodeName", "expression": "true"}],
    )
    yield _rule(
        "an expression with arguments",
        "predicates[0].args",
        "spec.predicates[0].args",
        predicates=[{"name": "mine", "expression": "true", "args": {"a": 1}}],
    )
    yield _rule(
        "an expression and a plugin",
        "priorities[0].plugin",
        "spec.priorities[0].plugin",
        priorities=[{"name": "mine", "expression": "1", "plugin": "ImageLocality"}],
    )
    yield _rule(
        "a message without an expression",
        "predicates[0].message",
        "spec.predicates",
        predicates=[{"name": "NodeName", "message": "x"}],
    )
    yield _rule(
        "seventeen expressions", "", "spec", predicates=[{"name": f"e{n}", "expression": "true"} for n in range(17)]
    )


def _extenders() -> Iterator[tuple[str, dict[str, Any]]]:
    first = "extenders[0]"
    yield _server(
        "an extender without an address",
        f"{first}.urlPrefix",
        f"spec.{first}.urlPrefix",
        extenders=[{"filterVerb": "filter"}],
    )
    yield _server(
        "an extender by another protocol",
        f"{first}.urlPrefix",
        f"spec.{first}.urlPrefix",
        extenders=[{**ASKED, "urlPrefix": "ftp://extender.example"}],
    )
    yield _rule(
        "an extender that is never asked", first, f"spec.{first}", extenders=[{"urlPrefix": "http://extender.example"}]
    )
    yield _rule(
        "an extender with tls over http",
        f"{first}.tls",
        f"spec.{first}.tls",
        extenders=[{**ASKED, "tls": {"insecure": True}}],
    )
    yield _rule(
        "two extenders that bind",
        "extenders[1].bindVerb",
        "spec.extenders",
        extenders=[{**ASKED, "bindVerb": "bind"}] * 2,
    )
    yield _berth(
        "a certificate that is none",
        f"{first}.tls.ca",
        "no certificate",
        extenders=[
            {
                **ASKED,
                "urlPrefix": "https://extender.example",
                "tls": {"ca": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
            }
        ],
    )
    yield _server(
        "an extender for cpu",
        f"{first}.managedResources[0].name",
        f"spec.{first}.managedResources[0].name",
        extenders=[{**ASKED, "managedResources": [{"name": "cpu"}]}],
    )
    yield _berth(
        "two extenders for one resource",
        "extenders[1].managedResources[0].name",
        "is managed already",
        extenders=[{**ASKED, "managedResources": [{"name": "example.com/fpga"}]}] * 2,
    )


def _bases() -> Iterator[tuple[str, dict[str, Any]]]:
    yield _berth("a base that is not there", "base", "there is no valid SchedulingPolicy nobody", base="nobody")
    yield _server("a base that no policy can be called", "base", "spec.base", base="Default Profile")


def _berth(title: str, field: str, words: str, **spec: Any) -> tuple[str, dict[str, Any]]:
    return title, {"by": By.BERTH, "field": field, "words": words, "spec": spec}


def _server(title: str, field: str, server_field: str, **spec: Any) -> tuple[str, dict[str, Any]]:
    return title, {"by": By.SERVER, "field": field, "server_field": server_field, "spec": spec}


def _rule(title: str, field: str, server_field: str, **spec: Any) -> tuple[str, dict[str, Any]]:
    _, told = _server(title, field, server_field, **spec)
    return title, {**told, "rule": True}


def _make(number: int, title: str, told: dict[str, Any]) -> Bad:
    name = f"bad-{number}"
    spec = {"schedulerName": f"{name}-pods", **told.pop("spec")}
    field = f"spec.{told.pop('field')}".rstrip(".")
    return Bad(title, (make_policy(name, **spec),), field=field, **told)


def _together(number: int) -> Iterator[Bad]:
    """Those that are bad for what is beside them, or only with the first pod."""
    names = [f"bad-{number + offset}" for offset in range(6)]
    heads: list[dict[str, Any]] = [{"schedulerName": f"{name}-pods"} for name in names]
    yield Bad(
        "a policy that is based on itself",
        (make_policy(names[0], base=names[0], **heads[0]),),
        By.SERVER,
        "spec.base",
        server_field="spec.base",
        rule=True,
    )
    partner = make_policy(f"{names[1]}-partner", base=names[1], schedulerName=f"{names[1]}-others")
    yield Bad(
        "two policies that are based on each other",
        (partner, make_policy(names[1], base=f"{names[1]}-partner", **heads[1])),
        By.BERTH,
        "spec.base",
        "ring",
    )
    broken = make_policy(f"{names[2]}-partner", schedulerName=f"{names[2]}-others", predicates=[{"name": "Astrology"}])
    yield Bad(
        "a policy that is based on one that is not valid",
        (broken, make_policy(names[2], base=f"{names[2]}-partner", **heads[2])),
        By.BERTH,
        "spec.base",
        "there is no valid SchedulingPolicy",
    )
    extender = {"urlPrefix": NOWHERE, "filterVerb": "filter", "timeoutSeconds": 1}
    yield Bad(
        "an extender that nobody answers for",
        (make_policy(names[3], extenders=[extender], **heads[3]),),
        By.DEGRADED,
        "",
        f"extender {NOWHERE}",
    )
    failing = {"name": "failing", "expression": "node.labels['no-such-label'] == 'x'"}
    yield Bad(
        "a predicate that fails on every node",
        (make_policy(names[4], predicates=[failing], **heads[4]),),
        By.DEGRADED,
        "",
        "predicate failing",
    )
    pointless = {"name": "pointless", "expression": "int(node.labels['no-such-label'])"}
    yield Bad(
        "a priority that fails on every node",
        (make_policy(names[5], priorities=[pointless], **heads[5]),),
        By.DEGRADED,
        "",
        "priority pointless",
    )


def _all() -> Iterator[Bad]:
    groups = (
        _unknown_names,
        _wrong_types,
        _impossible_values,
        _selectors_and_constraints,
        _expressions,
        _extenders,
        _bases,
    )
    number = 1
    for group in groups:
        for title, told in group():
            yield _make(number, title, told)
            number += 1
    yield from _together(number)


BAD_POLICIES = tuple(_all())
