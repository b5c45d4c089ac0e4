"""What a pod may ask for, each a function that draws it and writes it into the pod."""

from __future__ import annotations

from collections.abc import Mapping

from .case import APPS, EFFECTS, HOSTNAME, NAMESPACES, TAINTED, UNSCHEDULABLE, ZONE, ZONES, Body, Case

TOPOLOGY_KEYS = [HOSTNAME, ZONE, "rack"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_VALUES = [
    ("disk", ["ssd", "hdd"]),
    ("gen", ["1", "2", "5"]),
    ("arch", ["amd64", "arm64"]),
    (ZONE, ZONES),
    ("absent", ["v"]),
]
POD_VALUES = [("app", APPS), ("tier", ["1", "2"]), ("rev", ["r1", "r2"])]


def tolerate(case: Case, pod: Body) -> None:
    tolerations = [_toleration(case, key) for key in (*TAINTED, UNSCHEDULABLE) if case.chance(0.4)]
    if case.chance(0.05):
        tolerations.append({"operator": "Exists"})
    if tolerations:
        pod["spec"]["tolerations"] = tolerations


def _toleration(case: Case, key: str) -> Body:
    toleration = {"key": key, "operator": case.pick(["Equal", "Exists"])}
    if toleration["operator"] == "Equal" and case.chance(0.8):
        toleration["value"] = case.pick(["a", "b"])
    if case.chance(0.7):
        toleration["effect"] = case.pick(EFFECTS)
    if case.chance(0.3):
        del toleration["operator"]
        toleration.setdefault("value", "a")
    return toleration


def node_term(case: Case) -> Body:
    expressions = [_node_expression(case) for _ in range(case.number(0 if case.chance(0.1) else 1, 2))]
    term: Body = {"matchExpressions": expressions} if expressions else {}
    if case.chance(0.1):
        operator = case.pick(["In", "NotIn"])
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [case.node_name()]}]
    return term


def _node_expression(case: Case) -> Body:
    key, values = case.pick(NODE_VALUES)
    operator = case.pick(["In", "NotIn", "Exists", "DoesNotExist"] + (["Gt", "Lt"] if key == "gen" else []))
    expression: Body = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = case.some(values, 1)
    if operator in ("Gt", "Lt"):
        expression["values"] = [case.pick(["1", "2", "5"])]
    return expression


def want_nodes(case: Case, pod: Body) -> None:
    spec = pod["spec"]
    affinity: Body = {}
    if case.chance(0.3):
        spec["nodeSelector"] = {"disk": case.pick(["ssd", "hdd"])}
    if case.chance(0.5):
        affinity[REQUIRED] = {"nodeSelectorTerms": [node_term(case) for _ in range(case.number(1, 2))]}
    if case.chance(0.6):
        affinity[PREFERRED] = [
            {"weight": case.number(1, 100), "preference": node_term(case)} for _ in range(case.number(1, 3))
        ]
    if affinity:
        spec.setdefault("affinity", {})["nodeAffinity"] = affinity


def label_selector(case: Case, own: Mapping[str, str] | None = None) -> Body:
    """Often the pod's own app, else another app, an expression, or everything."""
    if own and case.chance(0.6):
        return {"matchLabels": {"app": own.get("app", "web")}}
    draw = case.random.random()
    if draw < 0.4:
        return {"matchLabels": {"app": case.pick(APPS)}}
    if draw >= 0.9:
        return {}
    key, values = case.pick(POD_VALUES)
    operator = case.pick(["In", "NotIn", "Exists", "DoesNotExist"])
    expression: Body = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = case.some(values, 1, 2)
    return {"matchExpressions": [expression]}


def _pod_term(case: Case, own: Mapping[str, str]) -> Body:
    term = {"labelSelector": label_selector(case, own), "topologyKey": case.pick(TOPOLOGY_KEYS)}
    draw = case.random.random()
    if draw < 0.2:
        term["namespaces"] = case.some(NAMESPACES, 1, 2)
    elif draw < 0.35:
        term["namespaceSelector"] = case.pick([{}, {"matchLabels": {"team": case.pick(NAMESPACES)}}])
    elif draw < 0.4:
        term["namespaces"] = ["default"]
        term["namespaceSelector"] = {"matchLabels": {"team": "team-a"}}
    return term


def want_pods(case: Case, pod: Body, required: float = 0.5, preferred: float = 0.6) -> None:
    own, affinity = pod["metadata"]["labels"], pod["spec"].setdefault("affinity", {})
    for kind, share in (("podAffinity", 0.6), ("podAntiAffinity", 0.8)):
        terms = {}
        if case.chance(required * share):
            terms[REQUIRED] = [_pod_term(case, own) for _ in range(case.number(1, 2))]
        if case.chance(preferred):
            terms[PREFERRED] = [
                {"weight": case.number(1, 100), "podAffinityTerm": _pod_term(case, own)}
                for _ in range(case.number(1, 2))
            ]
        if terms:
            affinity[kind] = terms
    if not affinity:
        del pod["spec"]["affinity"]


def spread(case: Case, pod: Body) -> None:
    own = pod["metadata"]["labels"]
    pod["spec"]["topologySpreadConstraints"] = [_constraint(case, own, key) for key in case.some(TOPOLOGY_KEYS, 1, 2)]


def _constraint(case: Case, own: Mapping[str, str], key: str) -> Body:
    hard = case.chance(0.5)
    constraint = {
        "maxSkew": case.number(1, 3),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": label_selector(case, own),
    }
    if hard and case.chance(0.3):
        constraint["minDomains"] = case.number(1, 5)
    if case.chance(0.4):
        constraint["nodeAffinityPolicy"] = case.pick(["Honor", "Ignore"])
    if case.chance(0.4):
        constraint["nodeTaintsPolicy"] = case.pick(["Honor", "Ignore"])
    if case.chance(0.2) and "rev" in own:
        constraint["matchLabelKeys"] = ["rev"]
    return constraint


def host_ports(case: Case, pod: Body, probability: float = 0.5) -> None:
    if case.chance(probability):
        ports = [_port(case, index) for index in range(case.number(1, 2))]
        pod["spec"]["containers"][0]["ports"] = ports


def _port(case: Case, index: int) -> Body:
    port = {
        "containerPort": 80 + index,
        "hostPort": case.pick([80, 443, 8080]),
        "protocol": case.pick(["TCP", "TCP", "UDP"]),
    }
    return port | ({"hostIP": case.pick(["127.0.0.1", "10.0.0.1", "0.0.0.0"])} if case.chance(0.4) else {})
