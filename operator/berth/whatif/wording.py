"""Counts, shares and amounts in words, for all forms of a report."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from berth.policy.wording import count
from berth.whatif.workloads import NO_ZONE

ARROW: Final = "->"
_UNITS: Final = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def percent(share: float) -> str:
    """A share of something without being rounded to all or nothing of it."""
    rounded = round(100 * share)
    if rounded == 100 and share < 1:
        return ">99%"
    return "<1%" if rounded == 0 and share > 0 else f"{rounded}%"


def change(before: str, after: str) -> str:
    return before if before == after else f"{before} {ARROW} {after}"


def by_zone(zones: Mapping[str, int]) -> str:
    """`a 16, b 16, c 15`; "" if no node has a zone."""
    named = {zone: number for zone, number in zones.items() if zone != NO_ZONE or number}
    if set(named) <= {NO_ZONE}:
        return ""
    return ", ".join(f"{'no zone' if zone == NO_ZONE else zone} {number}" for zone, number in sorted(named.items()))


def by_node(nodes: Counter[str]) -> str:
    """`12 (1-4 each)`: how many nodes, and how many pods each of them has."""
    return f"{len(nodes):,} ({_each(nodes)})" if nodes else "0"


def on_nodes(nodes: Counter[str]) -> str:
    """`12 nodes (1-4 each)`"""
    return f"{count(len(nodes), 'node')} ({_each(nodes)})"


def _each(nodes: Counter[str]) -> str:
    least, most = min(nodes.values()), max(nodes.values())
    return f"{least} each" if least == most else f"{least}-{most} each"


def amount(resource: str, value: int) -> str:
    """As Kubernetes writes quantities: `1500m`, `2Gi`."""
    if resource == "cpu":
        return f"{value // 1000}" if value % 1000 == 0 else f"{value}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for size, unit in _UNITS:
            if value >= size:
                return f"{value / size:.1f}{unit}".replace(".0", "")
    return f"{value:,}"
