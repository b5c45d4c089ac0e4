"""The chart on a real API server: its manifests are taken, `helm install` works, and an upgrade changes the kinds."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from berth.serving.certificates import make_pem
from chart.applying import AuditedPlane
from chart.rendering import (
    CHART,
    NAMESPACE,
    RELEASE,
    ROOT,
    SERVED,
    HelmFailed,
    Values,
    helm,
    parse,
    template,
    values_file,
)
from chart.value_sets import EVERYTHING, MINIMAL, VALUE_SETS
from control_plane.client import Client

pytestmark = pytest.mark.cluster

EXPLANATIONS = "v1alpha1.explain.berth.dev"  # the APIService
WEBHOOK = "policies.berth.dev"  # its configuration, and the webhook in it
POLICY_KIND, PEERING_KIND = "schedulingpolicies.berth.dev", "clusterkopfpeerings.kopf.dev"
# The Prometheus operator's kinds, with a schema that takes anything: what is in them is checked elsewhere.
MONITORING = ("ServiceMonitor", "PrometheusRule")
BATCH: Values = {"policies": {"batch": {"schedulerName": "batch", "percentageOfNodesToScore": 50}}}
EDITED: Values = {"policies": {"batch": {"schedulerName": "batch", "percentageOfNodesToScore": 10}}}
OTHERS: Values = {"policies": {"other": {"schedulerName": "other"}}}


@pytest.fixture(autouse=True)
def no_kinds(audited: AuditedPlane, api: Client) -> Iterator[None]:
    """Every test begins without Berth's kinds, and leaves neither them nor a release behind."""
    remove_kinds(audited)
    yield
    helm("uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found", kubeconfig=audited.kubeconfig)
    remove_kinds(audited)


def remove_kinds(plane: AuditedPlane) -> None:
    plane.kubectl("delete", "crd", POLICY_KIND, PEERING_KIND, "--ignore-not-found", "--wait=true")


def install(plane: AuditedPlane, values: Values, *arguments: str, chart: Path = CHART) -> str:
    with values_file(values) as path:
        return helm(
            "install", RELEASE, str(chart), "-n", NAMESPACE, "--create-namespace", "-f", path, *arguments,
            kubeconfig=plane.kubeconfig,
        ).stdout  # fmt: skip


def upgrade(plane: AuditedPlane, values: Values, chart: Path = CHART) -> str:
    with values_file(values) as path:
        return helm("upgrade", RELEASE, str(chart), "-n", NAMESPACE, "-f", path, kubeconfig=plane.kubeconfig).stdout


def names(plane: AuditedPlane, kind: str) -> list[str]:
    return plane.kubectl("get", kind, "-o", "name").stdout.split()


# --- manifests -------------------------------------------------------------------------------------------------------


@pytest.fixture
def kinds(audited: AuditedPlane, no_kinds: None) -> None:
    """Every kind of the chart is served, and its namespace there."""
    definitions = parse(template({}, "--include-crds")).all("CustomResourceDefinition")
    definitions += [monitoring_kind(kind) for kind in MONITORING]
    text = yaml.safe_dump_all(definitions)
    audited.kubectl("apply", "--server-side", "-f", "-", input=text)
    audited.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", "-", input=text)
    audited.kubectl("create", "namespace", NAMESPACE)


def monitoring_kind(kind: str) -> dict[str, object]:
    group, plural = "monitoring.coreos.com", f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_the_api_server_takes_every_manifest_and_knows_every_field(audited: AuditedPlane, values: Values) -> None:
    text = template(values, "--include-crds", "--api-versions", SERVED)
    shown = audited.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
    assert len(shown.stdout.splitlines()) == len(parse(text).manifests)
    assert shown.stderr == ""


@pytest.mark.usefixtures("kinds")
def test_pods_pass_the_restricted_standard(audited: AuditedPlane) -> None:
    """The API server's own check, which warns of a Deployment whose pods it would refuse."""
    label = "pod-security.kubernetes.io/warn=restricted"
    audited.kubectl("label", "namespace", NAMESPACE, label)
    for values in (MINIMAL, EVERYTHING):
        text = template(values, "--show-only", "templates/deployment.yaml")
        assert "would violate PodSecurity" not in dry_run(audited, text)
        laxer = text.replace("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true")
        assert "would violate PodSecurity" in dry_run(audited, laxer)  # it does look


def dry_run(plane: AuditedPlane, text: str) -> str:
    """What the API server warns of."""
    return plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=text).stderr


# --- helm ------------------------------------------------------------------------------------------------------------


def test_a_plain_installation_brings_kinds_and_peering_at_once_and_policies_with_the_next_command(
    audited: AuditedPlane,
) -> None:
    said = install(audited, BATCH)

    assert names(audited, "clusterkopfpeerings") == ["clusterkopfpeering.kopf.dev/berth"]
    assert "NOT MADE YET: batch." in said
    assert "NOT MADE YET" not in upgrade(audited, BATCH)
    assert names(audited, "schedulingpolicies") == ["schedulingpolicy.berth.dev/batch"]


def test_an_upgrade_adds_a_field_to_the_kind_and_keeps_every_policy(audited: AuditedPlane, tmp_path: Path) -> None:
    install(audited, {})
    upgrade(audited, BATCH)
    audited.kubectl("apply", "-f", "-", input=yaml.safe_dump(own_policy()))
    before = {name: uid_of(audited, name) for name in ("batch", "mine")}
    refused = audited.kubectl("patch", "sp", "mine", "--type=merge", "-p", '{"spec": {"colour": "blue"}}', check=False)
    assert "colour" in refused.stderr  # a field that is not known is named, and dropped
    assert "colour" not in spec_of(audited, "mine")

    upgrade(audited, BATCH, newer_chart(tmp_path))

    audited.kubectl("patch", "sp", "mine", "--type=merge", "-p", '{"spec": {"colour": "blue"}}')
    assert spec_of(audited, "mine")["colour"] == "blue"
    assert {name: uid_of(audited, name) for name in ("batch", "mine")} == before
    listed = helm("list", "-n", NAMESPACE, kubeconfig=audited.kubeconfig).stdout
    assert "berth-99.0.0" in listed


def own_policy() -> dict[str, object]:
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": "mine"},
        "spec": {"schedulerName": "mine"},
    }


def newer_chart(folder: Path) -> Path:
    """A copy with a higher version, whose kind has one field more."""
    chart = folder / "berth"
    shutil.copytree(CHART, chart)
    description = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**description, "version": "99.0.0", "appVersion": "99.0.0"}))
    path = chart / "files" / f"{POLICY_KIND}.yaml"
    known = "              schedulerName:\n"
    text = path.read_text()
    assert text.count(known) == 1
    path.write_text(text.replace(known, f"              colour: {{type: string, description: A new field.}}\n{known}"))
    return chart


def uid_of(plane: AuditedPlane, policy: str) -> str:
    return plane.kubectl("get", "sp", policy, "-o", "jsonpath={.metadata.uid}").stdout


def spec_of(plane: AuditedPlane, policy: str) -> dict[str, object]:
    return dict(yaml.safe_load(plane.kubectl("get", "sp", policy, "-o", "yaml").stdout)["spec"])


def test_policies_are_changed_and_removed_with_the_values(audited: AuditedPlane) -> None:
    install(audited, {})
    upgrade(audited, BATCH)
    uid = uid_of(audited, "batch")

    upgrade(audited, EDITED)
    assert uid_of(audited, "batch") == uid
    assert spec_of(audited, "batch")["percentageOfNodesToScore"] == 10

    upgrade(audited, OTHERS)
    assert names(audited, "schedulingpolicies") == ["schedulingpolicy.berth.dev/other"]


def test_policies_are_made_at_once_where_the_kind_was_applied_before(audited: AuditedPlane) -> None:
    definition = template({}, "--show-only", "templates/crds.yaml")
    audited.kubectl("apply", "--server-side", "-f", "-", input=definition)
    audited.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{POLICY_KIND}")

    assert "NOT MADE YET" not in install(audited, BATCH)
    assert names(audited, "schedulingpolicies") == ["schedulingpolicy.berth.dev/batch"]

    upgrade(audited, EDITED)
    assert spec_of(audited, "batch")["percentageOfNodesToScore"] == 10


def test_kinds_and_policies_of_others_outlive_the_release_and_meet_the_next_one(audited: AuditedPlane) -> None:
    install(audited, {})
    upgrade(audited, BATCH)
    audited.kubectl("apply", "-f", "-", input=yaml.safe_dump(own_policy()))

    helm("uninstall", RELEASE, "-n", NAMESPACE, kubeconfig=audited.kubeconfig)
    assert names(audited, "schedulingpolicies") == ["schedulingpolicy.berth.dev/mine"]

    install(audited, BATCH)
    assert len(names(audited, "schedulingpolicies")) == 2


def everything_there(plane: AuditedPlane) -> set[str]:
    """Every object of the cluster that can be deleted, but for what the control plane makes by itself."""
    kinds = plane.kubectl("api-resources", "--verbs=list,delete", "-o", "name").stdout.split()
    listed = [kind for kind in kinds if kind not in ("events", "events.events.k8s.io", "leases.coordination.k8s.io")]
    found = plane.kubectl("get", ",".join(listed), "-A", "--ignore-not-found", "-o", WITH_NAMESPACE).stdout.split()
    made = ("ServiceAccount:default/", "ConfigMap:kube-root-ca.crt/", "APIService:")
    return {name for name in found if not name.startswith(made)}


WITH_NAMESPACE = 'jsonpath={range .items[*]}{.kind}:{.metadata.name}/{.metadata.namespace}{"\\n"}{end}'


@pytest.mark.parametrize("created", [True, False])
def test_an_uninstalled_release_leaves_what_the_documentation_lists_and_no_more(
    audited: AuditedPlane, created: bool
) -> None:
    before = everything_there(audited)
    values: Values = {**BATCH, "leaderElection": {"createPeering": created}}
    install(audited, values)
    upgrade(audited, values)
    audited.kubectl("apply", "-f", "-", input=yaml.safe_dump(own_policy()))
    if not created:  # as Berth does when it starts
        audited.kubectl("apply", "-f", "-", input=yaml.safe_dump(a_peering()))

    helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait", kubeconfig=audited.kubeconfig)

    left = {name for name in everything_there(audited) - before if not name.startswith("Namespace:")}
    assert left == {
        f"CustomResourceDefinition:{POLICY_KIND}/",
        f"CustomResourceDefinition:{PEERING_KIND}/",
        "SchedulingPolicy:mine/",
        *(() if created else ("ClusterKopfPeering:berth/",)),
    }
    text = (ROOT / "docs" / "install.md").read_text().partition("## Uninstall")[2].partition("\n## ")[0]
    for words in (f"crd {POLICY_KIND}", f"crd {PEERING_KIND}", "clusterkopfpeering berth", f"namespace {NAMESPACE}"):
        assert f"kubectl delete {words}" in text


def a_peering(**status: object) -> dict[str, object]:
    return {
        "apiVersion": "kopf.dev/v1",
        "kind": "ClusterKopfPeering",
        "metadata": {"name": "berth"},
        **({"status": status} if status else {}),
    }


def install_another(plane: AuditedPlane, values: Values) -> str:
    silent = {"explanations": {"enabled": False}}  # which one release of a cluster can have
    with values_file({"fullnameOverride": "second", "crds": {"install": False}, **silent, **values}) as path:
        return helm(
            "install", "second", str(CHART), "-n", NAMESPACE, "-f", path, kubeconfig=plane.kubeconfig
        ).stdout  # fmt: skip


def test_a_second_release_with_the_same_peering_name_is_refused(audited: AuditedPlane) -> None:
    install(audited, {})

    words = f"belongs to the release {NAMESPACE}/{RELEASE}; .*set leaderElection.peeringName to another name"
    for create in (True, False):
        with pytest.raises(HelmFailed, match=words):
            install_another(audited, {"leaderElection": {"createPeering": create}})

    assert "installed as second" in install_another(audited, {"leaderElection": {"peeringName": "second"}})
    helm("uninstall", "second", "-n", NAMESPACE, kubeconfig=audited.kubeconfig)
    assert "upgraded" in upgrade(audited, {})


def test_a_release_is_refused_where_replicas_of_another_have_their_records(audited: AuditedPlane) -> None:
    install(audited, {"leaderElection": {"createPeering": False}})
    now = datetime.now(UTC)
    record = {"priority": 1, "lifetime": 10, "lastseen": now.isoformat()}
    gone = {**record, "lastseen": (now - timedelta(minutes=10)).isoformat()}
    values: Values = {"leaderElection": {"createPeering": False}}
    audited.kubectl("apply", "-f", "-", input=yaml.safe_dump(a_peering(**{f"{NAMESPACE}/{RELEASE}/pod_1": record})))

    with pytest.raises(HelmFailed, match=f"replica {NAMESPACE}/{RELEASE}/pod_1 of another release"):
        install_another(audited, values)
    assert "upgraded" in upgrade(audited, values)  # its own records are no others

    audited.kubectl("apply", "-f", "-", input=yaml.safe_dump(a_peering(**{f"{NAMESPACE}/{RELEASE}/pod_1": gone})))
    assert "installed as second" in install_another(audited, values)
    helm("uninstall", "second", "-n", NAMESPACE, kubeconfig=audited.kubeconfig)


def test_a_second_release_that_serves_explanations_is_refused(audited: AuditedPlane) -> None:
    install(audited, {})

    words = f"belongs to the release {NAMESPACE}/{RELEASE}; one release of a cluster can serve explanations"
    with pytest.raises(HelmFailed, match=words):
        install_another(audited, {"leaderElection": {"peeringName": "second"}, "explanations": {"enabled": True}})


def test_an_upgrade_leaves_what_the_leader_has_registered(audited: AuditedPlane) -> None:
    install(audited, {})
    endpoints = {"endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"name": "explain", "port": 10262}]}
    audited.kubectl(
        "patch", "endpointslice", "berth-explain", "-n", NAMESPACE, "--type=merge", "-p", json.dumps(endpoints)
    )
    trust = {"spec": {"caBundle": base64.b64encode(certificate()).decode()}}
    audited.kubectl("patch", "apiservice", EXPLANATIONS, "--type=merge", "-p", json.dumps(trust))

    upgrade(audited, {"explanations": {"rememberedDecisions": 5}})

    address = "jsonpath={.endpoints[0].addresses[0]}:{.ports[0].port}"
    found = audited.kubectl("get", "endpointslice", "berth-explain", "-n", NAMESPACE, "-o", address).stdout
    assert found == "192.0.2.1:10262"
    assert audited.kubectl("get", "apiservice", EXPLANATIONS, "-o", "jsonpath={.spec.caBundle}").stdout


def test_an_upgrade_leaves_the_certificate_that_the_webhook_trusts_and_off_removes_it(audited: AuditedPlane) -> None:
    install(audited, {"webhook": {"enabled": True}})
    client = {"caBundle": base64.b64encode(certificate()).decode()}
    trust = {"webhooks": [{"name": WEBHOOK, "clientConfig": client}]}
    audited.kubectl("patch", "validatingwebhookconfiguration", WEBHOOK, "--type=strategic", "-p", json.dumps(trust))

    upgrade(audited, {"webhook": {"enabled": True, "timeoutSeconds": 3}})

    bundle = "jsonpath={.webhooks[0].clientConfig.caBundle}:{.webhooks[0].timeoutSeconds}"
    found = audited.kubectl("get", "validatingwebhookconfiguration", WEBHOOK, "-o", bundle).stdout
    assert found == f"{client['caBundle']}:3"

    upgrade(audited, {"webhook": {"enabled": False}})
    kinds = "validatingwebhookconfiguration,endpointslice,service"
    left = audited.kubectl("get", kinds, "-A", "-o", "name").stdout
    assert "webhook" not in left.replace("validatingwebhookconfiguration", "")


def certificate() -> bytes:
    pem = make_pem("berth-explain.berth-system.svc")
    return pem[pem.index(b"-----BEGIN CERTIFICATE") :]


def test_a_kind_that_another_operator_has_defined_is_left_alone(audited: AuditedPlane) -> None:
    [theirs] = yaml.safe_load_all((CHART / "crds" / f"{PEERING_KIND}.yaml").read_text())
    theirs["metadata"]["labels"] = {"owner": "another"}
    audited.kubectl("apply", "-f", "-", input=yaml.safe_dump(theirs))
    audited.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{PEERING_KIND}")

    install(audited, {})

    owner = audited.kubectl("get", "crd", PEERING_KIND, "-o", "jsonpath={.metadata.labels.owner}").stdout
    assert owner == "another"


def test_a_policy_that_makes_no_sense_fails_the_upgrade_with_the_field(audited: AuditedPlane) -> None:
    install(audited, BATCH)
    upgrade(audited, BATCH)

    with pytest.raises(HelmFailed, match="percentageOfNodesToScore"):
        upgrade(audited, {"policies": {"batch": {"schedulerName": "batch", "percentageOfNodesToScore": 101}}})
    assert spec_of(audited, "batch")["percentageOfNodesToScore"] == 50
