"""Taints of nodes, tolerations of pods, and which tolerations tolerate which taints."""

from __future__ import annotations

from dataclasses import dataclass

from .fields import Body, read_choice, read_required_text, read_text

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS = ("Equal", "Exists", "Lt", "Gt")


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node: it repels pods that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod; an empty key or effect matches all of them."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration tolerates the taint.

        Lt and Gt tolerate nothing: they are alpha in Kubernetes 1.36 and off by default, and kube-scheduler without the
        feature gate treats them so.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


def build_taint(body: Body) -> Taint:
    """One entry of a node's spec.taints."""
    return Taint(read_required_text(body, "key"), read_text(body, "value"), read_choice(body, "effect", EFFECTS))


def build_toleration(body: Body) -> Toleration:
    """One entry of a pod's spec.tolerations."""
    return Toleration(
        read_text(body, "key"),
        read_choice(body, "operator", OPERATORS, "Equal"),
        read_text(body, "value"),
        read_choice(body, "effect", EFFECTS, ""),
    )
