"""An evaluation: its variables, what it has cost, and how parts with errors are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .values import EvaluationError

MOST_COST: Final = 1_000_000
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class Scope:
    """The variables of an evaluation, and what it has cost."""

    __slots__ = ("cost", "variables")

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables, self.cost = variables, 0

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > MOST_COST:
            raise EvaluationError(COST_EXCEEDED)


Run = Callable[[Scope], Any]


class Compiled(NamedTuple):
    """A part of an expression: what it does, and the type of what it gives."""

    run: Run
    kind: str


def decide(parts: Any, deciding: bool) -> bool:
    """&& and ||: one part that decides is enough, whatever errors the others have."""
    error: EvaluationError | None = None
    for part in parts:
        try:
            value = part()
        except EvaluationError as raised:
            if str(raised) == COST_EXCEEDED:
                raise
            error = error or raised
            continue
        if value is deciding:
            return bool(value)
        if value is not (not deciding):
            error = error or EvaluationError("no such overload")
    if error is not None:
        raise error
    return not deciding


def run_with(scope: Scope, names: tuple[str, ...], values: tuple[Any, ...], run: Run) -> Any:
    """What a part gives with some variables set."""
    before = scope.variables
    scope.variables = {**before, **dict(zip(names, values, strict=True))}
    try:
        return run(scope)
    finally:
        scope.variables = before
