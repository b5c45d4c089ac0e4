"""The CustomResourceDefinition of SchedulingPolicy, made from the tables: `python -m berth.policy.fields.crd`."""

from typing import Any

import yaml

from berth.policy.fields.spec_fields import GROUP, KIND, SPEC, VERSION
from berth.policy.fields.status_fields import STATUS
from berth.policy.fields.types import CelRule

PLURAL = "schedulingpolicies"
WIDTH = 120

HEADER = """\
# SchedulingPolicy: how Berth chooses nodes, as an object. docs/policies.md explains it; so does `kubectl explain sp`.
# Made from operator/berth/policy/fields by `make docs`: change it there.
"""
DESCRIPTION = (
    "A SchedulingPolicy says how Berth chooses a node for pods that ask for it by spec.schedulerName. It states what "
    "differs from its base, which is the default profile of kube-scheduler 1.36 unless it names another; with nothing "
    "but a schedulerName it is that profile. Applied, edited or deleted it takes effect on the next pod, and nothing "
    "restarts. A policy that is wrong changes nothing: the last good generation stays in force, and status.conditions "
    "say what is wrong, with the path of every field."
)
NOT_ITS_OWN_BASE = CelRule("self.spec.base != self.metadata.name", "a policy cannot be based on itself", ".spec.base")


def _condition(kind: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


# Name, type, path, description; those of priority 1 are shown with -o wide.
COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("Scheduler", "string", ".spec.schedulerName", "The schedulerName of the pods that the policy is for."),
    (
        "Mode",
        "string",
        ".spec.mode",
        "Whether it decides (Active), judges beside the one that does (Shadow) or does nothing (Disabled).",
    ),
    ("Ready", "string", _condition("Ready", "status"), "Whether the latest generation is valid and in effect."),
    ("Active", "string", _condition("Active", "status"), "Whether the policy decides for pods."),
    ("Accepted", "string", _condition("Accepted", "status"), "Whether the latest generation is a valid policy."),
    ("In force", "integer", ".status.activeGeneration", "The generation that decides; 0 if none does."),
    ("Placed", "integer", ".status.placed", "Pods that were placed under the policy."),
    ("Pending", "integer", ".status.pending", "Pods that wait under the policy."),
    ("Age", "date", ".metadata.creationTimestamp", ""),
)
WIDE_COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("Generation", "integer", ".metadata.generation", "The latest generation."),
    ("Reason", "string", _condition("Active", "reason"), "Why the policy is active or not."),
    (
        "Hash",
        "string",
        ".status.activeHash",
        "Names what the generation in force means, with everything that it has from its base.",
    ),
)


def definition() -> dict[str, Any]:
    """Returns the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "schedulingpolicy",
                "shortNames": ["sp"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        *(_column(*column) for column in COLUMNS),
                        *(_column(*column, priority=1) for column in WIDE_COLUMNS),
                    ],
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _column(name: str, kind: str, path: str, description: str, priority: int = 0) -> dict[str, Any]:
    body: dict[str, Any] = {"name": name, "type": kind}
    if priority:
        body["priority"] = priority
    body["jsonPath"] = path
    if description:
        body["description"] = description
    return body


def _schema() -> dict[str, Any]:
    return {
        "description": DESCRIPTION,
        "type": "object",
        "required": ["spec"],
        "x-kubernetes-validations": [NOT_ITS_OWN_BASE.schema()],
        "properties": {
            "apiVersion": {"description": f"Version of this schema, {GROUP}/{VERSION}.", "type": "string"},
            "kind": {"description": f"{KIND}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": SPEC.schema(),
            "status": STATUS.schema(),
        },
    }


class _CrdDumper(yaml.SafeDumper):
    """Long texts are folded, lists of words are on one line, nothing is an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = ">" if len(value) > WIDTH - 40 and " " in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.SequenceNode:
    words = all(isinstance(item, str) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=words)


_CrdDumper.add_representer(str, _text)
_CrdDumper.add_representer(list, _list)


def text() -> str:
    """Returns the file crds/schedulingpolicies.berth.dev.yaml."""
    return HEADER + yaml.dump(definition(), Dumper=_CrdDumper, sort_keys=False, width=WIDTH, default_flow_style=False)


if __name__ == "__main__":
    print(text(), end="")
