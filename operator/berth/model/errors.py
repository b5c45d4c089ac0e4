"""The one exception that leaves the model.

A body from the API is either read whole into a record or refused with InvalidObject, which says which object, which
field of it and what is wrong there. Whoever observes the cluster leaves such an object out of decisions, counts it
and shows this text.
"""

from __future__ import annotations


class InvalidObject(ValueError):
    """An API object has a field whose value makes no sense.

    `name` is "namespace/name" or "name" ("?" for a part that is missing), `field` a dotted path such as
    `spec.containers[0].resources.requests.cpu` (empty when the object as a whole is meant).
    """

    def __init__(self, kind: str, name: str, field: str, problem: str) -> None:
        super().__init__(kind, name, field, problem)
        self.kind = kind
        self.name = name
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{self.kind} {self.name}: {where}{self.problem}"
