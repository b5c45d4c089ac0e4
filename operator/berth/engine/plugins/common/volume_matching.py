"""Which available volume each unbound claim of a pod would get, on every node at once.

kube-scheduler does it node by node: claims by size, each gets the smallest volume that satisfies it and can be used on
the node, no volume twice. Here the volumes that satisfy a claim are sorted once, and each row gets the first few that
it can reach: one more than there are claims before this one, because at most that many can be taken already.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.state.free_volumes import FreeVolumes, reach, suits
from berth.engine.state.state import State
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Claim, NodeSelector, Volume

NONE = -1


@dataclass(frozen=True, slots=True)
class Match:
    """`chosen[i]` int64[rows] is the index in `volumes` of the volume that `claims[i]` gets on the row, or NONE."""

    claims: tuple[Claim, ...]
    volumes: Sequence[Volume | None]
    chosen: tuple[Int64Column, ...]

    def on(self, row: int) -> tuple[tuple[tuple[Claim, Volume], ...], tuple[Claim, ...]]:
        """Returns (claim, volume) of the claims that get a volume on the row, and the claims that get none."""
        bindings, missing = [], []
        for claim, column in zip(self.claims, self.chosen, strict=True):
            volume = self.volumes[column[row]] if column[row] != NONE else None
            if volume is None:
                missing.append(claim)
            else:
                bindings.append((claim, volume))
        return tuple(bindings), tuple(missing)

    def missing(self) -> Iterator[tuple[Claim, BoolColumn]]:
        """Yields each claim with the rows where it gets no volume."""
        return ((claim, column == NONE) for claim, column in zip(self.claims, self.chosen, strict=True))


def match_claims(claims: Sequence[Claim], state: State) -> Match:
    """Returns the volume that each of the claims (WaitForFirstConsumer) would get on each row."""
    by_size = sorted(claims, key=lambda claim: claim.requested_bytes)
    volumes = _Numbers()
    chosen: list[Int64Column] = []
    for claim in by_size:
        column = np.full(state.table.capacity, NONE, dtype=np.int64)
        free = state.volumes.reservations.free(claim.storage_class or "")
        if free is not None:
            slots = free.dealt(state.table, free.fitting(claim), len(chosen) + 1)
            for offer in volumes.of_class(claim.storage_class or "", free, slots)[
                ::-1
            ]:  # the smallest last, so that it wins
                column = np.where((offer != NONE) & ~_is_taken(offer, chosen), offer, column)
        chosen.append(_prefer_kept(claim, column, volumes, chosen, state))
    return Match(tuple(by_size), volumes.volumes, tuple(chosen))


def reaches(affinity: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a volume with this node affinity can be used on a node with these labels."""
    if affinity is None:
        return True
    return any(all(r.matches(labels) for r in t.expressions) for t in affinity.terms if t.expressions or t.fields)


class _Numbers:
    """Indexes for the volumes of all classes of a pod's claims, and for those that are reserved for its claims."""

    def __init__(self) -> None:
        self.volumes: list[Volume | None] = []
        self._begins: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def of_class(self, storage_class: str, free: FreeVolumes, slots: Int64Column) -> Int64Column:
        if storage_class not in self._begins:
            self._begins[storage_class] = len(self.volumes)
            self.volumes.extend(free.volumes)
        return np.where(slots >= 0, slots + self._begins[storage_class], NONE)

    def of_kept(self, volume: Volume) -> int:
        if volume.name not in self._kept:
            self._kept[volume.name] = len(self.volumes)
            self.volumes.append(volume)
        return self._kept[volume.name]


def _prefer_kept(
    claim: Claim, column: Int64Column, volumes: _Numbers, chosen: Sequence[Int64Column], state: State
) -> Int64Column:
    """If a volume is reserved for the claim, it is the only one that the claim gets, on nodes that can use it."""
    for volume in state.volumes.reservations.kept(claim):
        if volume.storage_class == (claim.storage_class or "") and suits(claim, volume):
            number = np.full_like(column, volumes.of_kept(volume))
            kept = np.where(reach(state.table, volume.node_affinity), number, NONE)
            return np.where(_is_taken(number, chosen), column, kept)
    return column


def _is_taken(number: Int64Column, chosen: Sequence[Int64Column]) -> BoolColumn:
    taken = np.zeros(len(number), dtype=np.bool_)
    for column in chosen:
        taken |= column == number
    return taken
