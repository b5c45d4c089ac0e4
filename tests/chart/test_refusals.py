"""Values that make no sense are refused, in words that name them."""

from __future__ import annotations

import pytest

from chart.rendering import HelmFailed, Values, parse, render, template

REFUSALS: dict[str, tuple[Values, str]] = {
    "a webhook's authority without its certificate": (
        {"webhook": {"caBundle": "PEM"}},
        "webhook.caBundle: goes with webhook.tls.secretName only",
    ),
    "a webhook that lets users wait": ({"webhook": {"timeoutSeconds": 30}}, "timeoutSeconds"),
    "a bundle for a certificate that is not given": (
        {"explanations": {"caBundle": "PEM"}},
        "explanations.caBundle: goes with explanations.tls.secretName only",
    ),
    "a gate without the API": (
        {"explanations": {"enabled": False}, "config": {"featureGates": {"Explanations": True}}},
        "config.featureGates.Explanations: needs the API; set explanations.enabled to true",
    ),
    "too many decisions": ({"explanations": {"rememberedDecisions": 1000000}}, "rememberedDecisions"),
    "a value that there is not": ({"replicas": 3}, "Additional property replicas is not allowed"),
    "a value deep down": ({"metrics": {"service": {"prot": 1}}}, "metrics.service: Additional property prot"),
    "a text for a number": ({"replicaCount": "three"}, "replicaCount: Invalid type"),
    "fewer than none": ({"replicaCount": -1}, "replicaCount: Must be greater than or equal to 0"),
    "an unknown pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "image.pullPolicy must be one of"),
    "a digest that is none": ({"image": {"digest": "sha256:1"}}, "image.digest: Does not match pattern"),
    "no image": ({"image": {"repository": ""}}, "image.repository: String length must be greater"),
    "a tag in the repository's digest": ({"image": {"repository": "a@sha256:1"}}, "image.repository: Does not match"),
    "a lifetime that no renewal keeps": ({"leaderElection": {"lifetimeSeconds": 1}}, "leaderElection.lifetimeSeconds"),
    "a name that is none": ({"leaderElection": {"peeringName": "Berth!"}}, "leaderElection.peeringName: Does not"),
    "an unknown level": ({"config": {"logLevel": "loud"}}, "config.logLevel must be one of"),
    "a setting of the process that the chart sets": (
        {"config": {"httpsAddress": ":1"}},
        "config: Additional property httpsAddress is not allowed",
    ),
    "a resync of every instant": ({"config": {"resyncSeconds": 0}}, "config.resyncSeconds: Must be greater than"),
    "a gate that is no switch": (
        {"config": {"featureGates": {"Expressions": "yes"}}},
        "config.featureGates.Expressions: Invalid type",
    ),
    "a gate that there is not": (
        {"config": {"featureGates": {"Nope": True}}},
        "config.featureGates: Additional property Nope is not allowed",
    ),
    "a policy that is not trusted with a reserved name": (
        {"defaultPolicy": {"enabled": True, "schedulerName": "default-scheduler"}},
        "policies.default.schedulerName: default-scheduler is reserved (config.reservedSchedulerNames); add default to "
        "config.trustedPolicies",
    ),
    "a host of extenders that is a URL": (
        {"config": {"extenderHosts": ["http://a"]}},
        "config.extenderHosts.0: Does not match pattern",
    ),
    "a network that is none": (
        {"config": {"extenderNetworks": ["all"]}},
        "config.extenderNetworks.0: Does not match pattern",
    ),
    "a label that selects": (
        {"podLabels": {"app.kubernetes.io/name": "mine"}},
        'podLabels: Property name of "app.kubernetes.io/name" does not match',
    ),
    "a checksum of your own": (
        {"podAnnotations": {"checksum/config": "1"}},
        'podAnnotations: Property name of "checksum/config" does not match',
    ),
    "a runbook that no browser finds": (
        {"metrics": {"prometheusRule": {"runbookUrl": "docs/runbooks.md"}}},
        "metrics.prometheusRule.runbookUrl: Does not match",
    ),
    "a port that needs root": ({"https": {"port": 443}}, "https.port: Must be greater than or equal to 1024"),
    "a host that is no address": ({"https": {"bindAddress": "localhost"}}, "https.bindAddress: Does not match"),
    "a policy for nobody": ({"policies": {"a": {}}}, "policies.a: schedulerName is required"),
    "a policy that no object can be called": ({"policies": {"A_b": {"schedulerName": "x"}}}, 'name of "A_b"'),
    "a right to everything": (
        {"rbac": {"extraRules": [{"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]}]}},
        "rbac.extraRules.0.apiGroups.0: Does not match",
    ),
    "a rule without verbs": ({"rbac": {"extraRules": [{}]}}, "rbac.extraRules.0: verbs is required"),
    "an end too soon for binds and events": (
        {"terminationGracePeriodSeconds": 30},
        "terminationGracePeriodSeconds: Must be greater than or equal to 33",
    ),
    "a reader without a namespace": ({"metrics": {"readers": [{"name": "p"}]}}, "metrics.readers.0: namespace"),
    "an interval without a unit": (
        {"metrics": {"serviceMonitor": {"interval": "30"}}},
        "metrics.serviceMonitor.interval: Does not match",
    ),
    "a spreading without a skew": ({"topologySpreadConstraints": [{}]}, "topologySpreadConstraints.0: maxSkew"),
    "a budget in words": ({"podDisruptionBudget": {"maxUnavailable": "one"}}, "podDisruptionBudget.maxUnavailable"),
    # What a schema cannot say, the templates do.
    "replicas without an election": (
        {"leaderElection": {"enabled": False}},
        "replicaCount: more than one replica needs leaderElection.enabled",
    ),
    "an account that nobody makes or names": ({"serviceAccount": {"create": False}}, "serviceAccount.name: name the"),
    "preemption without its right": (
        {"rbac": {"preemption": False}, "policies": {"a": {"schedulerName": "x", "preemption": {"enabled": True}}}},
        "policies.a.preemption.enabled: needs the right to delete pods",
    ),
    "preemption by its gate without its right": (
        {"rbac": {"preemption": False}, "config": {"featureGates": {"Preemption": True}}},
        "config.featureGates.Preemption: needs the right to delete pods",
    ),
    "two policies of one name": (
        {"defaultPolicy": {"enabled": True, "name": "a"}, "policies": {"a": {"schedulerName": "x"}}},
        "policies.a: defaultPolicy has the same name",
    ),
    "a monitor of a service that is not made": (
        {"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}},
        "metrics.serviceMonitor.enabled: needs the Service",
    ),
    "an alert that there is not": (
        {"metrics": {"prometheusRule": {"enabled": True, "disabled": ["BerthMoody"]}}},
        "metrics.prometheusRule.disabled: there is no alert BerthMoody; there are BerthDown",
    ),
}


@pytest.mark.parametrize(("values", "words"), REFUSALS.values(), ids=REFUSALS)
def test_the_refusal_names_the_value(values: Values, words: str) -> None:
    with pytest.raises(HelmFailed) as refusal:
        render(values)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "place",
    [
        ("commonLabels",),
        ("podLabels",),
        ("metrics", "serviceMonitor", "labels"),
        ("metrics", "prometheusRule", "labels"),
        ("metrics", "dashboard", "labels"),
    ],
    ids=".".join,
)
def test_labels_that_the_chart_gives_itself_are_no_one_elses(place: tuple[str, ...]) -> None:
    """One of them twice would be two keys of one name, and a selector that selects nothing."""
    given = parse(template()).one("Deployment")["metadata"]["labels"]
    values: Values = dict.fromkeys(given, "mine")
    for name in reversed(place):
        values = {name: values}

    with pytest.raises(HelmFailed) as refusal:
        render(values)
    for label in given:
        assert f'{".".join(place)}: Property name of "{label}" does not match' in str(refusal.value)
