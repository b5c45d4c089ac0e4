"""Small clusters for explanations: objects in, an explanation out."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from berth.explain import Explainer, Explanation, NodeComparison, find_subject, finish
from berth.policy import PolicyStore
from berth.scheduler.cache.cache import Cache

Body = Mapping[str, Any]


class World:
    """A cluster with its policies, as a snapshot has them."""

    def __init__(self, *bodies: Body) -> None:
        self.cache = Cache()
        self.policies = PolicyStore(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        for body in bodies:
            if body["kind"] == "SchedulingPolicy":
                self.policies.observe(body)
            else:
                self.cache.observe(body["kind"], body)
        self.explainer = Explainer(self.cache.state, self.policies)

    def explain(self, name: str = "web", namespace: str = "default", **more: Any) -> Explanation:
        subject = find_subject(self.cache, namespace, name)
        assert subject is not None, f"there is no pod {namespace}/{name}"
        return finish(self.explainer.explain(subject, **more))

    def compare(self, first: str, second: str, name: str = "web") -> NodeComparison:
        subject = find_subject(self.cache, "default", name)
        assert subject is not None
        return finish(self.explainer.compare(subject, first, second))


def explain(*bodies: Body, name: str = "web", **more: Any) -> Explanation:
    return World(*bodies).explain(name, **more)
