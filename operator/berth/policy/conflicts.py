"""Which policies conflict with each other.

Two policies with the same schedulerName are *rivals* if they have the same rank and some pod could match both: the
first by name decides, and both statuses say so. A policy is *superseded* if another one comes before it and matches
every pod that it matches: it never decides.

Whether some pod could match both follows exactly from the requirements on each key, because a label may have any value.
A changed policy is compared once with the others of its schedulerName, and the result is stored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from berth.model import LabelSelector, Requirement
from berth.policy.records import Policy
from berth.policy.selection import Rank, rank_of


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one label that selectors allow; `among` None: any."""

    required: bool = False
    absent: bool = False
    among: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()

    def __and__(self, other: "Values") -> "Values":
        among = self.among if other.among is None else other.among
        if self.among is not None and other.among is not None:
            among = self.among & other.among
        return Values(
            self.required or other.required,
            self.absent or other.absent,
            among,
            self.excluded | other.excluded,
        )

    @property
    def possible(self) -> bool:
        if self.required and self.absent:
            return False
        return self.among is None or bool(self.among - self.excluded)


def _values(requirement: Requirement) -> Values:
    match requirement.operator:
        case "In":
            return Values(required=True, among=frozenset(requirement.values))
        case "NotIn":
            return Values(excluded=frozenset(requirement.values))
        case "Exists":
            return Values(required=True)
        case _:
            return Values(absent=True)


_Label = tuple[bool, str]  # whether it is a label of the namespace, and its key


@dataclass(frozen=True, slots=True)
class _Claim:
    name: str
    rank: Rank
    requirements: frozenset[tuple[bool, Requirement]]
    labels: Mapping[_Label, Values]

    @classmethod
    def of(cls, policy: Policy) -> "_Claim":
        requirements = frozenset((*_of(policy.namespace_selector, True), *_of(policy.pod_selector, False)))
        labels: dict[_Label, Values] = {}
        for of_namespace, requirement in requirements:
            label = of_namespace, requirement.key
            labels[label] = labels.get(label, Values()) & _values(requirement)
        return cls(policy.name, rank_of(policy), requirements, labels)

    def comes_before(self, other: "_Claim") -> bool:
        return (self.rank, self.name) < (other.rank, other.name)

    def may_meet(self, other: "_Claim") -> bool:
        """Some pod could match both."""
        return all((self._at(label) & other._at(label)).possible for label in (*self.labels, *other.labels))

    def covers(self, other: "_Claim") -> bool:
        """Every pod that matches the other one matches this one."""
        return self.requirements <= other.requirements

    def _at(self, label: _Label) -> Values:
        return self.labels.get(label, _ANY)


_ANY = Values()


def _of(selector: LabelSelector | None, of_namespace: bool) -> Iterator[tuple[bool, Requirement]]:
    for requirement in selector.requirements if selector is not None else ():
        yield of_namespace, requirement


def may_meet(one: Policy, other: Policy) -> bool:
    """Whether some pod could match the selectors of both policies."""
    return _Claim.of(one).may_meet(_Claim.of(other))


@dataclass(slots=True)
class _Entry:
    claim: _Claim
    scheduler_name: str
    rivals: set[str] = field(default_factory=set)
    covered_by: set[str] = field(default_factory=set)  # of the policies that come before it


class Conflicts:
    """The policies that claim pods, and the conflicts between them."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._by_scheduler: dict[str, dict[str, _Entry]] = {}

    def enter(self, policy: Policy) -> set[str]:
        """Adds or replaces a policy; returns the names of others whose conflicts may have changed."""
        entry, known = _Entry(_Claim.of(policy), policy.scheduler_name), self._entries.get(policy.name)
        if known is not None and (known.claim, known.scheduler_name) == (entry.claim, entry.scheduler_name):
            return set()  # most changes leave selectors as they are, above all those of a base of many policies
        concerned = self.leave(policy.name)
        others = self._by_scheduler.setdefault(policy.scheduler_name, {})
        for name, other in others.items():
            if _meet(entry, other):
                concerned.add(name)
        self._entries[policy.name] = others[policy.name] = entry
        return concerned

    def leave(self, name: str) -> set[str]:
        """Removes a policy; returns the names of others whose conflicts may have changed."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return set()
        others = self._by_scheduler[entry.scheduler_name]
        del others[name]
        if not others:
            del self._by_scheduler[entry.scheduler_name]
        concerned = set()
        for other in others.values():
            if name in other.rivals or name in other.covered_by:
                concerned.add(other.claim.name)
                other.rivals.discard(name)
                other.covered_by.discard(name)
        return concerned

    def rivals(self, name: str) -> tuple[str, ...]:
        """Returns the policies of the same rank that may match the same pods, by name."""
        entry = self._entries.get(name)
        return tuple(sorted(entry.rivals)) if entry is not None else ()

    def superseder(self, name: str) -> str | None:
        """Returns the first policy that decides for every pod that this one matches, or None."""
        entry = self._entries.get(name)
        return None if entry is None else self._first(entry.covered_by)

    def preview(self, policy: Policy) -> tuple[str | None, tuple[str, ...]]:
        """Returns what would be the superseder and the rivals of the policy if it were entered. Enters nothing."""
        entry = _Entry(_Claim.of(policy), policy.scheduler_name)
        for name, other in self._by_scheduler.get(policy.scheduler_name, {}).items():
            if name != policy.name:
                _meet(entry, _Entry(other.claim, other.scheduler_name))
        return self._first(entry.covered_by), tuple(sorted(entry.rivals))

    def _first(self, names: set[str]) -> str | None:
        return min(names, key=lambda name: (self._entries[name].claim.rank, name), default=None)


def _meet(one: _Entry, other: _Entry) -> bool:
    """Records the conflict between the two; returns whether there is one."""
    first, second = (one, other) if one.claim.comes_before(other.claim) else (other, one)
    covers = first.claim.covers(second.claim)
    if covers:
        second.covered_by.add(first.claim.name)
    rivals = first.claim.rank == second.claim.rank and first.claim.may_meet(second.claim)
    if rivals:
        first.rivals.add(second.claim.name)
        second.rivals.add(first.claim.name)
    return covers or rivals
