"""A session of kubectl commands that the embedded server serves; recorded once on the real one, run again on ours.

{folder} is where the manifests lie. The commands are in an order in which each finds what it needs; none asks a
kubelet for anything, as there is none.
"""

from __future__ import annotations

from typing import Any

from support.builders import make_node, make_pod

POLICY: dict[str, Any] = {
    "apiVersion": "berth.dev/v1alpha1",
    "kind": "SchedulingPolicy",
    "metadata": {"name": "session"},
    "spec": {"schedulerName": "session", "priorities": [{"name": "NodeResourcesFit", "weight": 5}]},
}

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "example.test/web:1"}]},
        },
    },
}


def _without_uid(body: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
    return {**body, "metadata": metadata}


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return _without_uid(make_pod(name, cpu="100m", labels={"app": "session"}, **spec))


MANIFESTS: dict[str, dict[str, Any]] = {
    "node.json": _without_uid(make_node("session-node")),
    "pod.json": _pod("session-pod", scheduler="nobody"),
    "pod-changed.json": {
        **_pod("session-pod", scheduler="nobody"),
        "metadata": {"name": "session-pod", "namespace": "default", "labels": {"app": "session", "tier": "2"}},
    },
    "bound.json": _pod("session-bound", scheduler="nobody", node="session-node"),
    "policy.json": POLICY,
    "policy-changed.json": {
        **POLICY,
        "spec": {"schedulerName": "session", "priorities": [{"name": "NodeResourcesFit", "weight": 7}]},
    },
    "policy-bad.json": {**POLICY, "spec": {"schedulerName": "session", "tieBreak": "Dice"}},
    "deployment.json": DEPLOYMENT,
}

COMMANDS: tuple[str, ...] = (
    "version",
    "api-resources",
    "api-versions",
    "create -f {folder}/node.json",
    "apply -f {folder}/pod.json",
    "apply -f {folder}/pod.json",
    "apply -f {folder}/pod-changed.json",
    "create -f {folder}/bound.json",
    "apply -f {folder}/policy.json",
    "apply -f {folder}/policy-changed.json",
    "apply --server-side --force-conflicts -f {folder}/policy.json",
    "apply --server-side -f {folder}/deployment.json",
    "apply --dry-run=server -f {folder}/policy.json",
    "create namespace session",
    "get namespaces",
    "get pods",
    "get pods -A",
    "get pods -o wide",
    "get pods -o yaml",
    "get pods -o json",
    "get pods -o name",
    "get pods -l app=session",
    "get pods --field-selector spec.nodeName=session-node",
    "get pods --show-labels --sort-by=.metadata.name",
    "get pods -o jsonpath={.items[*].metadata.name}",
    "get pods -o custom-columns=NAME:.metadata.name",
    "get pod session-pod",
    "get pod session-pod -o yaml",
    "get pods -w --request-timeout=2s",
    "get pods -w -o name --request-timeout=2s",
    "get sp -w --request-timeout=2s",
    "get nodes",
    "get nodes -o wide",
    "get sp",
    "get sp -o wide",
    "get sp session -o yaml",
    "get deployments",
    "get events",
    "get events -A --sort-by=.lastTimestamp",
    "get all",
    "get crd",
    "get leases -A",
    "get priorityclasses",
    "get pvc,pv,sc,pdb,svc,rs,sts,rc,csinodes,csidrivers,csistoragecapacities -A",
    "get pods,nodes",
    "get pod missing --ignore-not-found",
    "get --raw /healthz",
    "describe pod session-pod",
    "describe pod session-bound",
    "describe pods",
    "describe node session-node",
    "describe sp session",
    "describe deployment web",
    "explain sp",
    "explain sp.spec.priorities",
    "explain sp --recursive",
    'patch pod session-pod -p {"metadata":{"labels":{"patched":"yes"}}}',
    'patch sp session --type=merge -p {"spec":{"tieBreak":"First"}}',
    'patch sp session --type=json -p [{"op":"remove","path":"/spec/tieBreak"}]',
    'patch node session-node --subresource=status --type=merge -p {"status":{"allocatable":{"pods":"50"}}}',
    "label pod session-pod colour=red",
    "label nodes session-node zone=a --overwrite",
    "annotate pod session-pod note=kept",
    "annotate sp session note=kept",
    "cordon session-node",
    "uncordon session-node",
    "taint nodes session-node dedicated=session:NoSchedule",
    "scale deployment web --replicas=3",
    "wait --for=condition=Established crd/schedulingpolicies.berth.dev --timeout=5s",
    "wait --for=jsonpath={.spec.schedulerName}=nobody pod/session-pod --timeout=5s",
    "wait --for=condition=Ready pod/session-pod --timeout=1s",
    "diff -f {folder}/policy.json",
    "replace -f {folder}/policy.json",
    "delete pod session-pod --wait=false",
    "wait --for=delete pod/session-pod --timeout=5s",
    "delete pod session-bound --grace-period=0 --force",
    "delete -f {folder}/policy.json",
    "delete pods --all",
    "delete pods -l app=session",
    "delete deployment web",
    "delete node session-node",
    "delete namespace session --wait=false",
)
