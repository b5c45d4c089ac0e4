"""What a SchedulingPolicy is once it has been read: frozen records, and the error that lists what is wrong with one.

A `Policy` is *resolved*: the default profile with the manifest's differences applied, disabled entries dropped. Two
manifests that mean the same give equal policies but for name, uid and generation. Predicates are in the order in which
they run. Each entry remembers the field of
the manifest that it came from, so that a problem found later (an argument that a plugin refuses) can still name it.

Nothing here reads manifests (`schema`) or builds plugins (`compile`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from berth.engine.pipeline import TieBreak

NO_ARGS: Mapping[str, object] = MappingProxyType({})


def _no_args() -> Mapping[str, object]:
    return NO_ARGS


@dataclass(frozen=True, slots=True)
class Predicate:
    """A plugin that says which nodes a pod fits on; `plugin` is which, where the name does not say it.

    `pre_filter_only`: of what it says only that counts which it says before any node is looked at.
    """

    name: str
    args: Mapping[str, object] = field(default_factory=_no_args)
    origin: str = field(default="", compare=False)  # "spec.predicates[2]"; empty for an entry of the default profile
    plugin: str = field(default="", kw_only=True)
    pre_filter_only: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugin", self.plugin or self.name)


@dataclass(frozen=True, slots=True)
class Priority:
    """A plugin that says, from 0 to 100, how much it likes a node; its weight multiplies that."""

    name: str
    weight: int = 1
    args: Mapping[str, object] = field(default_factory=_no_args)
    origin: str = field(default="", compare=False)
    plugin: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugin", self.plugin or self.name)


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    uid: str
    generation: int
    scheduler_name: str
    predicates: tuple[Predicate, ...]
    priorities: tuple[Priority, ...]
    tie_break: TieBreak = TieBreak.RANDOM


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a manifest: where, and what to do about it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class PolicyError(ValueError):
    """A manifest that cannot be a policy, with everything that is wrong with it."""

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__(f"SchedulingPolicy {name or '(unnamed)'}: " + "; ".join(map(str, self.problems)))
