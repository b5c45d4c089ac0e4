"""What the scheduler is asked: a port that `live` implements, and that tests implement without a scheduler.

Its methods run in the scheduler's loop, in short steps, and return plain bodies that nobody changes afterwards. Lists
are read a page at a time, in the order of namespaces and names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Body = dict[str, Any]
Key = tuple[str, str]  # namespace and name; the namespace is "" for what has none
Labels = Mapping[str, str]

MOST_ITEMS = 500


def any_labels(_: Labels) -> bool:
    """No labels are asked for."""
    return True


def any_body(_: Body) -> bool:
    """No fields are asked for."""
    return True


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which objects of a list: those of a namespace, or of all with None, that come after a key and match.

    `labels` is asked before a body is made, `fields` with the body.
    """

    namespace: str | None = None
    after: Key = ("", "")
    limit: int = MOST_ITEMS
    labels: Callable[[Labels], bool] = any_labels
    fields: Callable[[Body], bool] = any_body
    selects: bool = False
    """Whether labels or fields leave anything out."""


@dataclass(frozen=True, slots=True)
class Found:
    """One page. `rest`: how many more there are, before labels and fields are looked at."""

    items: Sequence[Body]
    rest: int = 0


@dataclass(frozen=True, slots=True)
class Detail:
    """How much an explanation is to say: the verdicts of all plugins on these nodes, or on every node."""

    nodes: tuple[str, ...] = ()
    every_node: bool = False


class Explanations(Protocol):
    """Answers about the cluster. None means that there is no such object."""

    async def explanation(self, namespace: str, name: str, detail: Detail) -> Body | None: ...

    async def pending(self, wanted: Wanted) -> Found: ...

    async def node_view(self, name: str) -> Body | None: ...

    async def node_views(self, wanted: Wanted) -> Found: ...

    async def cluster_view(self) -> Body: ...

    async def decisions(self, wanted: Wanted) -> Found: ...

    async def decision(self, namespace: str, name: str) -> Body | None: ...
