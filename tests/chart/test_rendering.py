"""What the chart makes of its values."""

from __future__ import annotations

import base64

import pytest

from chart.rendering import NAMESPACE, RELEASE, SERVED, Values, notes, parse, render, template, walk
from chart.value_sets import (
    AS_DEFAULT_SCHEDULER,
    EVERYTHING,
    MINIMAL,
    MONITORED,
    VALUE_SETS,
    WITH_WEBHOOK,
    WITHOUT_RIGHTS,
)

CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ClusterKopfPeering",
    "SchedulingPolicy",
    "APIService",
    "ValidatingWebhookConfiguration",
}
every_set = pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)


# --- every manifest --------------------------------------------------------------------------------------------------


@every_set
def test_every_object_has_a_kind_a_name_and_helms_labels_and_is_there_once(values: Values) -> None:
    seen = set()
    for manifest in render(values).manifests:
        metadata = manifest["metadata"]
        identity = (manifest["apiVersion"], manifest["kind"], metadata["name"])
        assert identity not in seen
        seen.add(identity)
        assert metadata["labels"]["app.kubernetes.io/instance"] == "berth"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert metadata["labels"]["helm.sh/chart"].startswith("berth-")
        assert ("namespace" in metadata) == (manifest["kind"] not in CLUSTER_WIDE), identity


@every_set
def test_no_secret_is_made_and_nothing_is_left_unfilled(values: Values) -> None:
    chart = render(values)

    assert "Secret" not in chart.kinds()
    for manifest in chart.manifests:
        for value in walk(manifest):
            assert value is not None, manifest["metadata"]["name"]
            assert "<no value>" not in str(value)


def test_common_labels_are_on_everything_and_leave_selectors_alone() -> None:
    chart = render(EVERYTHING)

    assert all(manifest["metadata"]["labels"]["team"] == "platform" for manifest in chart.manifests)
    assert "team" not in chart.one("Deployment")["spec"]["selector"]["matchLabels"]


def test_a_label_of_one_kind_of_object_wins_over_the_common_one() -> None:
    own = {"labels": {"team": "metrics"}}
    monitored = {name: {"enabled": True, **own} for name in ("serviceMonitor", "prometheusRule", "dashboard")}
    chart = render({"commonLabels": {"team": "platform"}, "podLabels": {"team": "pods"}, "metrics": monitored})
    deployment = chart.one("Deployment")

    assert deployment["metadata"]["labels"]["team"] == "platform"
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "pods"
    for kind, name in (("ServiceMonitor", "berth"), ("PrometheusRule", "berth"), ("ConfigMap", "berth-dashboard")):
        assert chart.one(kind, name)["metadata"]["labels"]["team"] == "metrics"


def test_the_least_is_a_deployment_and_its_configuration() -> None:
    chart = render(MINIMAL, "--skip-tests")

    assert chart.kinds() == {"ConfigMap", "Deployment"}
    assert chart.pod["serviceAccountName"] == "mine"
    assert "priorityClassName" not in chart.pod
    assert "resources" not in chart.container


def test_names_come_from_the_release_as_usual() -> None:
    assert parse(template(release="blue")).one("Deployment")["metadata"]["name"] == "blue-berth"
    assert render({"fullnameOverride": "mine"}).one("Deployment")["metadata"]["name"] == "mine"


# --- pods ------------------------------------------------------------------------------------------------------------


def test_three_replicas_are_spread_over_nodes_and_if_possible_over_zones() -> None:
    chart = render()
    spec = chart.one("Deployment")["spec"]
    spreading = {each["topologyKey"]: each for each in chart.pod["topologySpreadConstraints"]}

    assert spec["replicas"] == 3
    assert spreading["kubernetes.io/hostname"]["whenUnsatisfiable"] == "DoNotSchedule"
    assert spreading["topology.kubernetes.io/zone"]["whenUnsatisfiable"] == "ScheduleAnyway"
    for constraint in spreading.values():
        assert constraint["labelSelector"] == spec["selector"]
        assert constraint["matchLabelKeys"] == ["pod-template-hash"]
    assert render(EVERYTHING).pod["topologySpreadConstraints"] == EVERYTHING["topologySpreadConstraints"]


def test_labels_of_the_pods_are_what_everything_selects() -> None:
    chart = render(MONITORED)
    labels = chart.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        chart.one("Deployment")["spec"]["selector"]["matchLabels"],
        chart.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        chart.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        chart.one("Service", "berth")["spec"]["selector"],
    ]

    assert all(selector.items() <= labels.items() for selector in selectors)
    monitor = chart.one("ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitor.items() <= chart.one("Service", "berth")["metadata"]["labels"].items()


@every_set
def test_pods_are_restricted(values: Values) -> None:
    chart = render(values)

    assert chart.pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert chart.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & chart.pod.keys()
    assert chart.pod["enableServiceLinks"] is False
    assert all("hostPath" not in volume for volume in chart.pod["volumes"])


@every_set
def test_everything_that_is_mounted_is_a_volume_of_its_own_path(values: Values) -> None:
    chart = render(values)
    mounts = {mount["mountPath"]: mount["name"] for mount in chart.container["volumeMounts"]}

    assert set(mounts.values()) == {volume["name"] for volume in chart.pod["volumes"]}
    # A mount inside of a read-only one has nowhere to be.
    assert not [(outer, inner) for outer in mounts for inner in mounts if inner.startswith(f"{outer}/")]


def test_probes_ask_the_https_port_for_health() -> None:
    container = render().container
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}

    assert container["ports"][0] == {"name": "https", "containerPort": 10259, "protocol": "TCP"}
    assert {probe["scheme"] for probe in probes.values()} == {"HTTPS"}
    assert {probe["port"] for probe in probes.values()} == {"https"}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }


def test_berth_is_scheduled_by_another_and_has_time_to_end() -> None:
    pod = render(AS_DEFAULT_SCHEDULER).pod

    assert pod["schedulerName"] == "default-scheduler"
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["terminationGracePeriodSeconds"] == 40
    assert "cpu" not in render().container["resources"]["limits"]


def test_the_image_is_named_by_digest_tag_or_version() -> None:
    version = parse(template()).one("Deployment")["metadata"]["labels"]["app.kubernetes.io/version"]

    assert render().container["image"] == f"berth:{version}"
    assert render({"image": {"tag": "edge"}}).container["image"] == "berth:edge"
    assert render(EVERYTHING).container["image"] == f"example.com/team/berth@sha256:{'0' * 64}"


def test_replicas_of_an_election_are_replaced_one_by_one_and_a_lone_one_never_meets_its_successor() -> None:
    assert render().one("Deployment")["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    assert render(MINIMAL).one("Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_a_budget_is_made_for_more_than_one_replica() -> None:
    assert render().one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert render(EVERYTHING).one("PodDisruptionBudget")["spec"]["maxUnavailable"] == "40%"
    assert "PodDisruptionBudget" not in render({"replicaCount": 1}).kinds()


# --- configuration ---------------------------------------------------------------------------------------------------


def test_the_configuration_is_a_file_that_berth_is_started_with() -> None:
    chart = render()
    [mount] = [each for each in chart.container["volumeMounts"] if each["name"] == "config"]

    assert chart.container["args"] == ["run", f"--config={mount['mountPath']}/berth.yaml"]
    assert chart.configuration == {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "BerthConfiguration",
        "standalone": False,
        "peeringName": "berth",
        "peeringLifetimeSeconds": 10,
        "installation": f"{NAMESPACE}/{RELEASE}",
        "httpsAddress": "0.0.0.0:10259",
        "explainAddress": "0.0.0.0:10262",
        "explainService": f"{NAMESPACE}/{RELEASE}-explain",
        "rememberedDecisions": 1000,
        "logLevel": "info",
        "logFormat": "json",
        "resyncSeconds": 300,
        "builtInPolicy": True,
        "debugEndpoints": False,
        "reservedSchedulerNames": ["default-scheduler"],
        "protectedNamespaces": ["kube-system"],
        "trustedPolicies": [],
        "extenderHosts": ["*"],
        "extenderNetworks": [],
    }


def test_every_value_reaches_the_configuration() -> None:
    assert render(EVERYTHING).configuration == {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "BerthConfiguration",
        "standalone": False,
        "peeringName": "berth-blue",
        "peeringLifetimeSeconds": 15,
        "installation": f"{NAMESPACE}/{RELEASE}",
        "httpsAddress": "[::]:20259",
        "tlsCertFile": "/etc/berth/tls/tls.crt",
        "tlsPrivateKeyFile": "/etc/berth/tls/tls.key",
        "explainAddress": "[::]:20262",
        "explainService": f"{NAMESPACE}/{RELEASE}-explain",
        "explainTlsCertFile": "/etc/berth/explain-tls/tls.crt",
        "explainTlsPrivateKeyFile": "/etc/berth/explain-tls/tls.key",
        "webhookAddress": "[::]:20263",
        "webhookService": f"{NAMESPACE}/{RELEASE}-webhook",
        "webhookTlsCertFile": "/etc/berth/webhook-tls/tls.crt",
        "webhookTlsPrivateKeyFile": "/etc/berth/webhook-tls/tls.key",
        "rememberedDecisions": 50,
        "logLevel": "debug",
        "logFormat": "text",
        "resyncSeconds": 60,
        "builtInPolicy": False,
        "seed": 7,
        "debugEndpoints": True,
        "reservedSchedulerNames": ["default-scheduler", "gpu"],
        "protectedNamespaces": [],
        "trustedPolicies": ["platform"],
        "extenderHosts": ["*.svc", "fd12::1"],
        "extenderNetworks": ["127.0.0.0/8", "fe80::/10"],
        "featureGates": {"ShadowPolicies": False},
    }
    assert render(MINIMAL).configuration["standalone"] is True


def test_pods_are_replaced_when_their_configuration_changes_and_not_otherwise() -> None:
    def checksum(values: Values) -> str:
        metadata = render(values).one("Deployment")["spec"]["template"]["metadata"]
        return str(metadata["annotations"]["checksum/config"])

    assert checksum({}) != checksum({"config": {"logLevel": "debug"}})
    assert checksum({}) == checksum({"replicaCount": 5})


def test_a_given_certificate_is_mounted_where_the_configuration_looks_for_it() -> None:
    chart = render({"tls": {"secretName": "mine"}})
    [mount] = [each for each in chart.container["volumeMounts"] if each["name"] == "tls"]
    [volume] = [each for each in chart.pod["volumes"] if each["name"] == "tls"]

    assert chart.configuration["tlsCertFile"] == f"{mount['mountPath']}/tls.crt"
    assert chart.configuration["tlsPrivateKeyFile"] == f"{mount['mountPath']}/tls.key"
    assert volume["secret"]["secretName"] == "mine"
    assert "tlsCertFile" not in render().configuration


# --- kinds and policies ----------------------------------------------------------------------------------------------


def test_definitions_can_be_left_to_others_and_go_with_the_release_on_request() -> None:
    assert "CustomResourceDefinition" not in render({"crds": {"install": False}}).kinds()
    leaving = render({"crds": {"keep": False}}).one("CustomResourceDefinition")
    assert "helm.sh/resource-policy" not in leaving["metadata"]["annotations"]


def test_policies_are_part_of_the_release_where_their_kind_is_served() -> None:
    chart = render(EVERYTHING)

    assert chart.one("SchedulingPolicy", "batch")["spec"] == EVERYTHING["policies"]["batch"]
    assert chart.one("SchedulingPolicy", "default")["spec"] == {"schedulerName": "berth"}


def test_policies_wait_for_their_kind_where_the_release_defines_it_and_the_notes_say_so() -> None:
    assert parse(template(EVERYTHING)).all("SchedulingPolicy") == []
    assert "NOT MADE YET: batch, default." in notes(EVERYTHING)
    assert "NOT MADE YET" not in notes({})
    assert "NOT MADE YET" not in notes({**EVERYTHING, "crds": {"install": False}})


def test_policies_for_a_kind_that_others_define_are_made_at_once() -> None:
    values = {**EVERYTHING, "crds": {"install": False}}
    assert len(parse(template(values)).all("SchedulingPolicy")) == 2


def test_berth_can_take_the_place_of_the_default_scheduler() -> None:
    [policy] = render(AS_DEFAULT_SCHEDULER).all("SchedulingPolicy")
    assert policy["spec"] == {"schedulerName": "default-scheduler"}


def test_numbers_in_policies_stay_whole() -> None:
    """A program that reads numbers as floating-point ones would write 1.2345678e+07."""
    values = {"policies": {"a": {"schedulerName": "x", "weight": 12345678}}}
    assert "weight: 12345678\n" in template(values, "--api-versions", SERVED)


# --- what is not allowed ---------------------------------------------------------------------------------------------


def test_without_the_right_to_delete_pods_preemption_is_switched_off_as_a_whole() -> None:
    assert render(WITHOUT_RIGHTS).configuration["featureGates"] == {"Preemption": False}
    assert render(WITHOUT_RIGHTS).configuration["builtInPolicy"] is True
    assert "featureGates" not in render().configuration


def test_the_notes_say_what_is_switched_off() -> None:
    assert "may not delete pods" in notes(WITHOUT_RIGHTS)
    assert "may not change claims and volumes" in notes(WITHOUT_RIGHTS)
    assert "may not" not in notes({})
    assert 'must not serve "default-scheduler"' in notes(AS_DEFAULT_SCHEDULER)
    assert "metrics-reader" in notes(MONITORED)
    assert "has to be on the nodes already" in notes({})
    assert "on the nodes already" not in notes(EVERYTHING)


# --- the way in ------------------------------------------------------------------------------------------------------


def test_connections_are_admitted_to_the_two_ports_only() -> None:
    spec = render().one("NetworkPolicy")["spec"]

    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": port}]} for port in ("https", "explain")]
    with_webhook = render(WITH_WEBHOOK).one("NetworkPolicy")["spec"]
    assert [rule["ports"][0]["port"] for rule in with_webhook["ingress"]] == ["https", "explain", "webhook"]
    silent = render({"explanations": {"enabled": False}}).one("NetworkPolicy")["spec"]
    assert silent["ingress"] == [{"ports": [{"protocol": "TCP", "port": "https"}]}]
    restricted = render(EVERYTHING).one("NetworkPolicy")["spec"]
    assert restricted["policyTypes"] == ["Ingress", "Egress"]
    assert restricted["ingress"][0]["from"] == EVERYTHING["networkPolicy"]["from"]
    assert restricted["egress"] == EVERYTHING["networkPolicy"]["egress"]


# --- explanations ----------------------------------------------------------------------------------------------------


def test_the_api_server_finds_the_leader_by_a_service_without_a_selector() -> None:
    chart = render()
    name = "berth-explain"
    api_service = chart.one("APIService")
    assert api_service["metadata"]["name"] == "v1alpha1.explain.berth.dev"
    assert api_service["spec"]["service"] == {"namespace": NAMESPACE, "name": name, "port": 443}
    assert "caBundle" not in api_service["spec"], "the leader sees to it, and an upgrade must not take it away"
    service = chart.one("Service", name)["spec"]
    assert service["ports"] == [{"name": "explain", "port": 443, "targetPort": 10262, "protocol": "TCP"}]
    assert "selector" not in service
    slice_ = chart.one("EndpointSlice")
    assert slice_["metadata"]["name"] == name
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == name
    assert slice_["addressType"] == "IPv4"
    assert not {"endpoints", "ports"} & set(slice_)
    [address] = [each for each in chart.container["env"] if each["name"] == "BERTH_ADVERTISE_ADDRESS"]
    assert address["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_a_certificate_that_is_given_is_mounted_and_trusted() -> None:
    chart = render(EVERYTHING)
    [volume] = [each for each in chart.pod["volumes"] if each["name"] == "explain-tls"]
    assert volume["secret"]["secretName"] == "explain-tls"
    api_service = chart.one("APIService")
    assert base64.b64decode(api_service["spec"]["caBundle"]).startswith(b"-----BEGIN CERTIFICATE")
    assert api_service["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "berth-system/explain"}
    assert chart.one("EndpointSlice", "berth-explain")["addressType"] == "IPv6"


def test_without_explanations_nothing_is_served_and_nothing_remembered() -> None:
    chart = render({"explanations": {"enabled": False}})
    assert not [key for key in chart.configuration if key.startswith("explain")]
    assert chart.configuration["featureGates"] == {"Explanations": False}
    assert [port["name"] for port in chart.container["ports"]] == ["https"]


# --- the webhook -----------------------------------------------------------------------------------------------------


def test_the_webhook_fails_open_has_no_side_effects_and_is_asked_about_policies_only() -> None:
    chart = render(WITH_WEBHOOK)
    configuration = chart.one("ValidatingWebhookConfiguration")
    assert configuration["metadata"]["name"] == "policies.berth.dev"
    [webhook] = configuration["webhooks"]
    assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["timeoutSeconds"]) == ("Ignore", "None", 5)
    [rule] = webhook["rules"]
    assert rule["resources"] == ["schedulingpolicies"], "not their status, which Berth writes"
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert "caBundle" not in webhook["clientConfig"], "the leader sees to it, and an upgrade must not take it away"
    place = {"namespace": NAMESPACE, "name": "berth-webhook", "port": 443, "path": "/validate"}
    assert webhook["clientConfig"]["service"] == place


def test_the_webhook_is_served_by_the_leader_that_the_service_leads_to() -> None:
    chart = render(WITH_WEBHOOK)
    service = chart.one("Service", "berth-webhook")["spec"]
    assert service["ports"] == [{"name": "webhook", "port": 443, "targetPort": 10263, "protocol": "TCP"}]
    assert "selector" not in service
    slice_ = chart.one("EndpointSlice", "berth-webhook")
    assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "berth-webhook"
    assert not {"endpoints", "ports"} & set(slice_)
    assert chart.configuration["webhookAddress"] == "0.0.0.0:10263"
    assert chart.configuration["webhookService"] == f"{NAMESPACE}/berth-webhook"
    alone = render({**WITH_WEBHOOK, "explanations": {"enabled": False}})
    assert [port["name"] for port in alone.container["ports"]] == ["https", "webhook"]
    assert [each["name"] for each in alone.container["env"]] == ["BERTH_ADVERTISE_ADDRESS"]


def test_a_certificate_for_the_webhook_is_mounted_and_trusted() -> None:
    chart = render(EVERYTHING)
    [volume] = [each for each in chart.pod["volumes"] if each["name"] == "webhook-tls"]
    assert volume["secret"]["secretName"] == "webhook-tls"
    assert chart.configuration["webhookTlsCertFile"] == "/etc/berth/webhook-tls/tls.crt"
    configuration = chart.one("ValidatingWebhookConfiguration")
    [webhook] = configuration["webhooks"]
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]).startswith(b"-----BEGIN CERTIFICATE")
    assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "berth-system/webhook"}


def test_there_is_no_webhook_by_default() -> None:
    chart = render()
    assert not [key for key in chart.configuration if key.startswith("webhook")]
    assert "webhook" not in [port["name"] for port in chart.container["ports"]]


def test_only_a_certificate_that_nobody_can_verify_is_not_verified() -> None:
    [endpoint] = render(MONITORED).one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
    assert endpoint["bearerTokenFile"].endswith("/serviceaccount/token")

    [endpoint] = render(EVERYTHING).one("ServiceMonitor")["spec"]["endpoints"]
    assert "insecureSkipVerify" not in endpoint["tlsConfig"]
    assert endpoint["tlsConfig"]["serverName"] == "berth.berth-system.svc"


def test_prometheus_can_be_given_a_token_of_its_own() -> None:
    values = {"metrics": {"serviceMonitor": {"enabled": True, "tokenSecret": {"name": "scrape"}}}}
    [endpoint] = render(values).one("ServiceMonitor")["spec"]["endpoints"]

    assert endpoint["authorization"]["credentials"] == {"name": "scrape", "key": "token"}
    assert "bearerTokenFile" not in endpoint


def test_readers_of_metrics_may_read_metrics_and_nothing_else() -> None:
    chart = render(EVERYTHING)

    assert chart.one("ClusterRole", "berth-metrics-reader")["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]
    binding = chart.one("ClusterRoleBinding", "berth-metrics-reader")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]
    names = {binding["metadata"]["name"] for binding in render().all("ClusterRoleBinding")}
    assert names == {"berth", "berth-explain-page"}


def test_the_account_s_token_is_mounted_by_the_pods_that_need_it_only() -> None:
    chart = render()

    assert chart.one("ServiceAccount")["automountServiceAccountToken"] is False
    assert chart.pod["automountServiceAccountToken"] is True
    [subject] = chart.one("ClusterRoleBinding", "berth")["subjects"]
    assert (subject["name"], subject["namespace"]) == (chart.pod["serviceAccountName"], "berth-system")
