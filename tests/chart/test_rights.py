"""The rights that the chart grants: each with its reason, none too wide, and the same as the documentation says.

That Berth can do without none of them, and asks for nothing else, shows on a real API server (test_rights_needed.py,
test_rights_used.py).
"""

from __future__ import annotations

import re

import pytest

from chart.needed import CREATES_PEERING, NEEDED, WEBHOOK
from chart.rendering import CHART, ROOT, Values, render, rights
from chart.value_sets import EVERYTHING, MINIMAL, VALUE_SETS, WITH_WEBHOOK, WITHOUT_RIGHTS

BUDGETS = {(verb, "policy", "poddisruptionbudgets") for verb in ("get", "list", "watch")}
PREEMPTION = {("delete", "", "pods")} | BUDGETS
VOLUMES = {("patch", "", "persistentvolumeclaims"), ("patch", "", "persistentvolumes")}
EXPLAINING = {
    ("get", "", "configmaps"),
    *((verb, "discovery.k8s.io", "endpointslices") for verb in ("get", "patch")),
    *((verb, "apiregistration.k8s.io", "apiservices") for verb in ("get", "patch")),
}
PEERING = {(verb, "kopf.dev", "clusterkopfpeerings") for verb in ("get", "list", "watch", "patch")}


@pytest.mark.parametrize("values", [each for name, each in VALUE_SETS.items() if name != "minimal"])
def test_no_right_is_to_everything_or_to_secrets(values: Values) -> None:
    for rule in render(values).rules + [rule for role in render(values).all("Role") for rule in role["rules"]]:
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}
        words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not [word for word in words if "*" in word]
        assert not {"secrets", "configmaps"} & set(rule["resources"])
        assert not {"escalate", "bind", "impersonate", "deletecollection", "update"} & set(rule["verbs"])


def test_what_is_needed_is_granted_and_nothing_else() -> None:
    assert rights(render().granted) == NEEDED


def test_who_scrapes_reads_metrics_and_nothing_else() -> None:
    assert render().one("ClusterRole", "berth-metrics-reader")["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]


def test_no_right_is_granted_twice() -> None:
    rules = render().rules
    assert len(rights(rules)) == sum(len(r["verbs"]) * len(r["apiGroups"]) * len(r["resources"]) for r in rules)


def test_every_rule_says_what_it_is_for() -> None:
    lines = (CHART / "templates" / "clusterrole.yaml").read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("- apiGroups:")]

    assert len(rules) > 10
    assert [lines[number] for number in rules if not lines[number - 1].startswith("# ")] == []


def test_preemption_and_volumes_have_their_rights_only_when_they_are_on() -> None:
    assert rights(render().rules) - rights(render(WITHOUT_RIGHTS).rules) == PREEMPTION | VOLUMES
    only = {"rbac": {"preemption": False}}
    assert rights(render().rules) - rights(render(only).rules) == PREEMPTION


def test_a_lone_replica_has_no_right_to_meet_others() -> None:
    alone = {"replicaCount": 1, "leaderElection": {"enabled": False}}
    assert rights(render().rules) - rights(render(alone).rules) == PEERING


def test_replicas_write_to_their_own_peering_object_only() -> None:
    for values, name in (({}, "berth"), (EVERYTHING, "berth-blue")):
        rules = [rule for rule in render(values).rules if rule["apiGroups"] == ["kopf.dev"]]
        assert [rule["resourceNames"] for rule in rules if "patch" in rule["verbs"]] == [[name]]


def test_berth_may_make_the_peering_object_where_the_chart_does_not() -> None:
    assert CREATES_PEERING not in rights(render().rules)
    assert "ClusterKopfPeering" in render().kinds()

    by_berth = render({"leaderElection": {"createPeering": False}})
    assert rights(by_berth.granted) == NEEDED | {CREATES_PEERING}
    assert "ClusterKopfPeering" not in by_berth.kinds()


def test_explanations_have_their_rights_only_when_they_are_on_and_each_to_one_object() -> None:
    off = render({"explanations": {"enabled": False}})
    assert rights(render().granted) - rights(off.granted) == EXPLAINING
    assert not {"APIService", "EndpointSlice", "Role", "RoleBinding"} & off.kinds()
    for rule in render().granted:
        if rights([rule]) & EXPLAINING:
            assert len(rule["resourceNames"]) == 1

    given = render({"explanations": {"tls": {"secretName": "mine"}, "caBundle": "PEM"}})
    assert ("patch", "apiregistration.k8s.io", "apiservices") not in rights(given.granted)


def test_the_webhook_has_its_rights_only_when_it_is_on_and_each_to_one_object() -> None:
    on = render(WITH_WEBHOOK)
    assert rights(on.granted) - rights(render().granted) == WEBHOOK
    assert "ValidatingWebhookConfiguration" not in render().kinds()
    for rule in on.granted:
        if rights([rule]) & (WEBHOOK | {("patch", "discovery.k8s.io", "endpointslices")}):
            assert len(rule["resourceNames"]) == 1
    alone = render({**WITH_WEBHOOK, "explanations": {"enabled": False}})
    assert rights(alone.granted) >= WEBHOOK | {("patch", "discovery.k8s.io", "endpointslices")}

    given = render({"webhook": {"enabled": True, "tls": {"secretName": "mine"}, "caBundle": "PEM"}})
    assert not rights(given.granted) & WEBHOOK


def test_who_views_a_namespace_views_its_explanations_and_nothing_without_a_namespace() -> None:
    view, cluster = (render().one("ClusterRole", f"berth-explain-{name}") for name in ("view", "cluster-view"))
    reading = ["get", "list", "watch"]
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert view["rules"] == [
        {"apiGroups": ["explain.berth.dev"], "resources": ["explanations", "decisions"], "verbs": reading}
    ]
    assert not [label for label in cluster["metadata"]["labels"] if "aggregate" in label]
    assert cluster["rules"] == [
        {"apiGroups": ["explain.berth.dev"], "resources": ["nodeviews", "clusterviews"], "verbs": reading}
    ]


def test_every_user_may_read_the_files_of_the_page_and_by_that_nothing_else() -> None:
    chart = render()
    assert chart.one("ClusterRole", "berth-explain-page")["rules"] == [
        {"apiGroups": ["explain.berth.dev"], "resources": ["ui"], "verbs": ["get", "list"]}
    ]
    binding = chart.one("ClusterRoleBinding", "berth-explain-page")
    assert binding["roleRef"]["name"] == "berth-explain-page"
    [subject] = binding["subjects"]
    assert (subject["kind"], subject["name"]) == ("Group", "system:authenticated")


def test_rights_of_your_own_are_added() -> None:
    assert EVERYTHING["rbac"]["extraRules"][0] in render(EVERYTHING).rules


def test_rights_can_be_left_to_others() -> None:
    assert not {"ClusterRole", "ClusterRoleBinding"} & render(MINIMAL).kinds()
    unbound = render({"rbac": {"create": False}})
    assert not {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} & unbound.kinds()
    assert "APIService" in unbound.kinds()


def test_the_documentation_lists_the_same_rights() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("## What it needs to be allowed")[2].partition("\n## ")[0]
    documented = set()
    for group, resources, verbs in re.findall(r"^\| ([a-z0-9.]+) \| ([^|]+) \| ([^|]+) \| ", section, re.MULTILINE):
        for resource in resources.replace(", the one object only", "").split(", "):
            documented |= {(verb, group.replace("core", ""), resource.strip()) for verb in verbs.strip().split(", ")}

    assert documented == rights(render(WITH_WEBHOOK).granted)
