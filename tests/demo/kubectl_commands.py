"""Everyday kubectl commands on the demo's cluster, in an order in which each finds what it needs.

Each has the exit code and a text that it prints. {folder} is where the manifests are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    line: str
    says: str = ""
    code: int = 0


def refused(line: str, says: str) -> Command:
    return Command(line, says, code=1)


def _template(app: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": app, "image": "example.test/a:1"}]}}


def _workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": _template(name), **spec},
    }


DATA = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
MANIFESTS: dict[str, dict[str, Any]] = {
    "agent.json": _workload("DaemonSet", "agent"),
    "db.json": _workload("StatefulSet", "db", replicas=2, serviceName="db", volumeClaimTemplates=[DATA]),
    "api.json": _workload("Deployment", "api", replicas=1),
    "api-changed.json": _workload("Deployment", "api", replicas=2),
    "misspelled.json": _workload("Deployment", "api", replicaz=2),
    "limits.json": {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "small"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
    },
}

NO_CONTAINERS = "no containers run in the pods of this cluster"

COMMANDS: tuple[Command, ...] = (
    # what there is
    Command("version", "Server Version: v1.36"),
    Command("cluster-info", "Kubernetes control plane is running at"),
    Command("api-resources", "cronjobs"),
    Command("api-versions", "networking.k8s.io/v1"),
    Command("get nodes", "Ready"),
    Command("get namespaces", "demo"),
    Command("get schedulingpolicies", "default-scheduler"),
    Command("explain pod.spec.containers.resources", "map[string]Quantity"),
    Command("explain deployment.spec.strategy.rollingUpdate.maxSurge", "IntOrString"),
    Command("explain sp.spec.priorities", "weight"),
    Command("auth can-i create pods", "yes"),
    Command("auth can-i --list", "[*]"),
    Command("auth whoami", "system:masters"),
    # create
    Command("create namespace try", "namespace/try created"),
    Command("create deployment web --image=nginx --replicas=2", "deployment.apps/web created"),
    Command("create job once --image=busybox -- true", "job.batch/once created"),
    Command("create cronjob often --image=busybox --schedule=@hourly -- true", "cronjob.batch/often created"),
    refused("create cronjob bad --image=busybox --schedule=often", "spec.schedule: Invalid value"),
    Command("create job again --from=cronjob/often", "job.batch/again created"),
    Command("create configmap settings --from-literal=a=b", "configmap/settings created"),
    Command("create secret generic password --from-literal=a=b", "secret/password created"),
    Command("get secret password -o jsonpath={.data.a}", "Yg=="),
    Command("create serviceaccount robot", "serviceaccount/robot created"),
    Command("create token robot"),
    Command("get serviceaccounts -n try", "default"),
    Command("create priorityclass high --value=1000", "priorityclass.scheduling.k8s.io/high created"),
    Command("create pdb web --selector=app=web --min-available=1", "poddisruptionbudget.policy/web created"),
    Command("create quota small --hard=pods=10", "resourcequota/small created"),
    Command("create role reader --verb=get --resource=pods", "role.rbac.authorization.k8s.io/reader created"),
    Command("create rolebinding readers --role=reader --serviceaccount=default:robot", "readers created"),
    Command("create clusterrole reader --verb=get --resource=pods", "reader created"),
    Command("create ingress web --rule=example.test/*=web:80", "ingress.networking.k8s.io/web created"),
    Command("create service clusterip plain --tcp=80", "service/plain created"),
    Command("create -f {folder}/limits.json", "limitrange/small created"),
    refused("create -f {folder}/misspelled.json", 'unknown field "spec.replicaz"'),
    # run, expose, scale, roll out
    Command("run x --image=nginx", "pod/x created"),
    Command("wait --for=condition=Ready pod/x --timeout=60s", "condition met"),
    Command("rollout status deployment/web --timeout=60s", "successfully rolled out"),
    Command("expose deployment web --port=80", "service/web exposed"),
    Command("scale deployment web --replicas=3", "deployment.apps/web scaled"),
    Command("set image deployment/web nginx=nginx:1.29", "image updated"),
    Command("rollout status deployment/web --timeout=60s", "successfully rolled out"),
    Command("rollout history deployment/web", "2"),
    Command("rollout undo deployment/web", "rolled back"),
    Command("rollout pause deployment/web", "paused"),
    Command("rollout resume deployment/web", "resumed"),
    Command("rollout restart deployment/web", "restarted"),
    Command("rollout status deployment/web --timeout=60s", "successfully rolled out"),
    Command("wait --for=condition=Complete job/once job/again --timeout=90s", "job.batch/again condition met"),
    refused(
        "autoscale deployment web --min=1 --max=5 --cpu=80%",
        "the embedded API server does not serve horizontalpodautoscalers.autoscaling",
    ),
    # apply, diff, edit, patch
    Command("apply -f {folder}/agent.json -f {folder}/db.json", "daemonset.apps/agent created"),
    Command("rollout status daemonset/agent --timeout=60s", "successfully rolled out"),
    Command("rollout status statefulset/db --timeout=60s", "roll"),
    Command("get pvc", "data-db-1"),
    Command("apply --server-side -f {folder}/api.json", "serverside-applied"),
    Command("diff -f {folder}/api-changed.json", "replicas: 2", code=1),
    Command("apply --server-side -f {folder}/api-changed.json", "serverside-applied"),
    Command("edit configmap settings", "edited"),
    Command("get configmap settings -o jsonpath={.data.a}", "edited"),
    Command("label pod x tier=front", "labeled"),
    Command("annotate pod x note=kept", "annotated"),
    Command('patch deployment api -p {"spec":{"replicas":1}}', "patched"),
    # nodes
    Command("cordon {node}", "cordoned"),
    Command("taint nodes {node} dedicated=try:NoSchedule", "tainted"),
    Command("drain {node} --ignore-daemonsets --delete-emptydir-data --force --timeout=60s", "drained"),
    Command("taint nodes {node} dedicated-", "untainted"),
    Command("uncordon {node}", "uncordoned"),
    # look
    Command("describe pod -l app=api", "Scheduled"),
    Command("describe node {node}", "Allocated resources"),
    Command("get all", "deployment.apps/web"),
    Command("events", "Scheduled"),
    Command("get events", "Scheduled"),
    Command("get decisions", "default-scheduler"),
    # what it cannot do
    refused("logs deployment/web", NO_CONTAINERS),
    refused("exec deployment/web -- true", NO_CONTAINERS),
    refused("port-forward deployment/web 18080:80", NO_CONTAINERS),
    refused("top pods", "Metrics API not available"),
    refused("top nodes", "Metrics API not available"),
    # delete
    Command("delete deployment web", "deleted"),
    Command("delete daemonset agent --cascade=foreground", "deleted"),
    Command("delete deployment api --cascade=orphan", "deleted"),
    Command("get replicasets -l app=api", "api-"),
    Command("delete namespace try --timeout=60s", "deleted"),
)
