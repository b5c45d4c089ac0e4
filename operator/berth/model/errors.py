"""InvalidObject: the one exception that the model raises.

A body from the API is either parsed completely into a record or rejected with InvalidObject, which names the object,
the field and the problem. The cache leaves such an object out of decisions, counts it and shows this text.
"""

from __future__ import annotations


class InvalidObject(ValueError):
    """An API object has a field with an invalid value.

    `name` is "namespace/name" or "name" ("?" for a missing part), `field` a dotted path such as
    `spec.containers[0].resources.requests.cpu` (empty if the object as a whole is meant).
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
