"""Values that the chart is tried with: what people really choose, and everything at once."""

from __future__ import annotations

from chart.rendering import Values

MINIMAL: Values = {
    "replicaCount": 1,
    "leaderElection": {"enabled": False},
    "serviceAccount": {"create": False, "name": "mine"},
    "rbac": {"create": False},
    "crds": {"install": False},
    "priorityClassName": "",
    "resources": None,
    "podDisruptionBudget": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "metrics": {"service": {"enabled": False}},
    "explanations": {"enabled": False},
}
EVERYTHING: Values = {
    "replicaCount": 5,
    "image": {"repository": "example.com/team/berth", "digest": "sha256:" + "0" * 64, "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "commonLabels": {"team": "platform"},
    "leaderElection": {"peeringName": "berth-blue", "lifetimeSeconds": 15, "createPeering": False},
    "config": {
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
    },
    "https": {"bindAddress": "[::]", "port": 20259},
    "tls": {"secretName": "berth-tls"},
    "explanations": {
        "port": 20262,
        "rememberedDecisions": 50,
        "tls": {"secretName": "explain-tls"},
        "caBundle": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "annotations": {"cert-manager.io/inject-ca-from": "berth-system/explain"},
    },
    "webhook": {
        "enabled": True,
        "port": 20263,
        "timeoutSeconds": 2,
        "tls": {"secretName": "webhook-tls"},
        "caBundle": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "annotations": {"cert-manager.io/inject-ca-from": "berth-system/webhook"},
    },
    "defaultPolicy": {"enabled": True},
    "policies": {"batch": {"schedulerName": "batch", "backoff": {"initialSeconds": 2, "maxSeconds": 604800}}},
    "serviceAccount": {"annotations": {"example.com/role": "scheduler"}},
    "rbac": {"extraRules": [{"apiGroups": ["example.com"], "resources": ["racks"], "verbs": ["list"]}]},
    "podAnnotations": {"example.com/note": "text"},
    "podLabels": {"example.com/tier": "system"},
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 2,
            "topologyKey": "example.com/rack",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "berth"}},
        }
    ],
    "podDisruptionBudget": {"maxUnavailable": "40%"},
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egress": [{"ports": [{"protocol": "TCP", "port": 6443}]}],
    },
    "metrics": {
        "service": {"annotations": {"example.com/scrape": "true"}},
        "readers": [{"namespace": "monitoring", "name": "prometheus"}],
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"},
        "prometheusRule": {
            "enabled": True,
            "alertLabels": {"team": "platform"},
            "runbookUrl": "https://example.com/runbooks.md",
            "disabled": ["BerthEventsLost"],
        },
        "dashboard": {"enabled": True, "annotations": {"folder": "Kubernetes"}},
    },
}
MONITORED: Values = {
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    }
}
WITH_WEBHOOK: Values = {"webhook": {"enabled": True}}
WITHOUT_RIGHTS: Values = {"rbac": {"preemption": False, "volumeBinding": False}}
AS_DEFAULT_SCHEDULER: Values = {
    "defaultPolicy": {"enabled": True, "schedulerName": "default-scheduler"},
    "config": {"trustedPolicies": ["default"]},
}

VALUE_SETS: dict[str, Values] = {
    "defaults": {},
    "minimal": MINIMAL,
    "everything": EVERYTHING,
    "monitored": MONITORED,
    "with webhook": WITH_WEBHOOK,
    "without rights": WITHOUT_RIGHTS,
    "as default-scheduler": AS_DEFAULT_SCHEDULER,
}
