"""Policies that are based on policies: in which order they are resolved, and which of them form a cycle.

Every policy has at most one base, so they form trees, and cycles with trees below them. They are given as a mapping
from the name of a policy to that of its base (None: one of Berth's own); a base may be missing from it.
"""

from collections.abc import Mapping

Bases = Mapping[str, str | None]


def dependants(name: str, bases: Bases) -> list[str]:
    """Returns all policies based on this one, directly or not: bases first, without the policy itself."""
    based_on: dict[str, list[str]] = {}
    for policy in sorted(bases):
        base = bases[policy]
        if base is not None:
            based_on.setdefault(base, []).append(policy)
    found = [name]
    seen = {name}
    for policy in found:  # grows while it is walked
        for dependant in based_on.get(policy, ()):
            if dependant not in seen:
                seen.add(dependant)
                found.append(dependant)
    return found[1:]


def find_ring(name: str, bases: Bases) -> tuple[str, ...]:
    """Returns the cycle from the policy over its bases back to itself, as ("a", "b", "a"); empty if there is none."""
    way: dict[str, None] = {name: None}
    base = bases.get(name)
    while base is not None and base not in way:
        way[base] = None
        base = bases.get(base)
    return (*way, name) if base == name else ()
