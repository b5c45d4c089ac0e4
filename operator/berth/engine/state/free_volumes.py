"""FreeVolumes: the available PersistentVolumes of one storage class as columns, and the nodes that can reach them.

There is one slot per volume, and slots are reused. Each column is int64[slots], 0 if the slot is empty:

    capacity   bytes
    order      a checksum of the name: decides between volumes of equal size, independent of the order of arrival
    kind       id of the distinct (volume mode, attributes class, access modes)
    label      id of the node label of which the node affinity requires one value, as for local and zonal volumes; or 0
    place      id of that label and value; or of the whole node affinity, if it requires anything else

A claim is compared with each kind once, and with single volumes only if it has a selector. Volumes whose affinity is
one value of a label are assigned to nodes by that label's column of the node table, others once per distinct affinity.
"""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.columns import Interner, Vocabulary, grown
from berth.engine.state.node_selection import match_term
from berth.engine.state.node_table import NodeTable
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import Claim, NodeSelector, NodeSelectorTerm, Volume

Kind = tuple[str, str, tuple[str, ...]]
Place = tuple[str, str] | NodeSelector

_CAPACITY, _ORDER, _KIND, _LABEL, _PLACE = range(5)
_FIRST_SLOTS: Final = 64
_UNKNOWN, _NOT_LOOKED_UP = -1, -2


class FreeVolumes:
    def __init__(self) -> None:
        self.volumes: list[Volume | None] = []  # by slot
        self._slots: dict[str, int] = {}
        self._spare: list[int] = []
        self._columns = np.zeros((5, _FIRST_SLOTS), dtype=np.int64)
        self._kinds: Interner[Kind | None] = Interner(None)
        self._labels: Interner[str | None] = Interner(None)
        self._places: Interner[Place | None] = Interner(None)
        self._value_ids: Int64Column = np.full(_FIRST_SLOTS, _NOT_LOOKED_UP, dtype=np.int64)  # by place: in the table
        self._looked_up: dict[str, tuple[Vocabulary, int]] = {}  # by label: in which vocabulary, of what length

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Volume]:
        return (volume for volume in self.volumes if volume is not None)

    # --- following ---------------------------------------------------------------------------------------------------

    def put(self, volume: Volume) -> None:
        slot = self._spare.pop() if self._spare else self._new_slot()
        place = _place(volume.node_affinity)
        number = self._places.use(place)
        if number >= len(self._value_ids):
            self._value_ids = grown(self._value_ids, 2 * len(self._value_ids), _NOT_LOOKED_UP)
        self._value_ids[number] = _NOT_LOOKED_UP  # it may have been the number of another place
        self._columns[:, slot] = (
            volume.capacity_bytes,
            crc32(volume.name.encode()),
            self._kinds.use(_kind(volume)),
            self._labels.use(place[0] if isinstance(place, tuple) else None),
            number,
        )
        self._slots[volume.name] = slot
        self.volumes[slot] = volume

    def drop(self, name: str) -> None:
        slot = self._slots.pop(name)
        _, _, kind, label, place = self._columns[:, slot].tolist()
        self._kinds.release(kind)
        self._labels.release(label)
        self._places.release(place)
        self._columns[:, slot] = 0
        self.volumes[slot] = None
        self._spare.append(slot)

    def _new_slot(self) -> int:
        self.volumes.append(None)
        if len(self.volumes) > self._columns.shape[1]:
            self._columns = grown(self._columns, 2 * self._columns.shape[1])
        return len(self.volumes) - 1

    # --- asking ------------------------------------------------------------------------------------------------------

    def fitting(self, claim: Claim) -> NDArray[np.intp]:
        """Returns intp[k]: the slots of the volumes that satisfy the claim, the smallest volume first."""
        suits = np.array([kind is not None and _suits(claim, kind) for kind in self._kinds.values])
        columns = self._columns
        slots = np.flatnonzero(suits[columns[_KIND]] & (columns[_CAPACITY] >= claim.requested_bytes))
        if claim.selector is not None:
            labelled = [slot for slot in slots.tolist() if claim.selector.matches(self._volume(slot).labels)]
            slots = np.array(labelled, dtype=np.intp)
        return slots[np.lexsort((columns[_ORDER, slots], columns[_CAPACITY, slots]))]

    def dealt(self, table: NodeTable, slots: NDArray[np.intp], count: int) -> Int64Column:
        """Returns int64[count, rows]: the first slots that each row can reach; -1 if there are fewer than `count`."""
        none = len(slots)
        found = np.full((count, table.capacity), none, dtype=np.int64)  # positions in `slots`, which keep its order
        labels, places = self._columns[_LABEL, slots], self._columns[_PLACE, slots]
        for label in np.unique(labels).tolist():
            mine = np.flatnonzero(labels == label)
            key = self._labels.values[label]
            if key is not None:
                ids, vocabulary = table.label(key)
                values = self._ids_of(key, places[mine], vocabulary)
                found = _merged(found, _deal(values, mine, len(vocabulary.ids), count, none)[:, ids])
            else:
                for place in np.unique(places[mine]).tolist():
                    found = _merged(found, self._offer(table, place, mine[places[mine] == place], count, none))
        return np.append(slots, -1)[found]

    def _offer(self, table: NodeTable, place: int, positions: NDArray[np.intp], count: int, none: int) -> Int64Column:
        affinity = self._places.values[place]
        offer = np.full((count, table.capacity), none, dtype=np.int64)
        reached = reach(table, affinity if isinstance(affinity, NodeSelector) else None)
        offer[: len(positions), reached] = positions[:count, None]
        return offer

    def _ids_of(self, key: str, places: Int64Column, vocabulary: Vocabulary) -> Int64Column:
        """Returns int64[places]: the ids of the label values in the node table; -1 if no node has the value."""
        last, length = self._looked_up.get(key, (None, 0))
        if last is not vocabulary:
            self._value_ids[:] = _NOT_LOOKED_UP
        elif length != len(vocabulary.ids):
            self._value_ids[self._value_ids == _UNKNOWN] = _NOT_LOOKED_UP
        self._looked_up[key] = vocabulary, len(vocabulary.ids)
        for place in np.unique(places[self._value_ids[places] == _NOT_LOOKED_UP]).tolist():
            named = self._places.values[place]
            value = named[1] if isinstance(named, tuple) else ""
            self._value_ids[place] = vocabulary.ids.get(value, _UNKNOWN)
        return self._value_ids[places]

    def _volume(self, slot: int) -> Volume:
        volume = self.volumes[slot]
        assert volume is not None, f"slot {slot} is empty"
        return volume


def suits(claim: Claim, volume: Volume) -> bool:
    """Whether a volume that is reserved for the claim satisfies it."""
    same = (volume.volume_mode, volume.attributes_class) == (claim.volume_mode, claim.attributes_class)
    return same and volume.capacity_bytes >= claim.requested_bytes


def reach(table: NodeTable, affinity: NodeSelector | None) -> BoolColumn:
    """Returns bool[all rows]: the nodes that a volume with this node affinity can be used on.

    Only labels are matched: kube-scheduler ignores the matchFields of a volume.
    """
    if affinity is None:
        return np.ones(table.capacity, dtype=np.bool_)
    matched = np.zeros(table.capacity, dtype=np.bool_)
    for term in affinity.terms:
        if term.expressions:
            matched |= match_term(table, NodeSelectorTerm(term.expressions))
        elif term.fields:
            matched[:] = True
    return matched


def _kind(volume: Volume) -> Kind:
    return volume.volume_mode, volume.attributes_class, volume.access_modes


def _suits(claim: Claim, kind: Kind) -> bool:
    volume_mode, attributes_class, access_modes = kind
    same = (volume_mode, attributes_class) == (claim.volume_mode, claim.attributes_class)
    return same and set(claim.access_modes) <= set(access_modes)


def _place(affinity: NodeSelector | None) -> Place | None:
    """Returns the label and its value if the affinity requires nothing else, or the whole affinity."""
    if affinity is not None and len(affinity.terms) == 1 and len(affinity.terms[0].expressions) == 1:
        requirement = affinity.terms[0].expressions[0]
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return affinity


def _deal(values: Int64Column, positions: NDArray[np.intp], known: int, count: int, none: int) -> Int64Column:
    """Returns int64[count, values + 1]: the first positions for each value; the last column is for a missing label."""
    order = np.argsort(values, kind="stable")  # positions rise within a value
    values, positions = values[order], positions[order]
    turn = np.arange(len(values)) - np.searchsorted(values, values)
    early = (turn < count) & (values != _UNKNOWN)
    dealt = np.full((count, known + 1), none, dtype=np.int64)
    dealt[turn[early], values[early]] = positions[early]
    return dealt


def _merged(one: Int64Column, other: Int64Column) -> Int64Column:
    """Returns the first positions of both, row by row."""
    if len(one) == 1:
        return np.minimum(one, other)
    return np.sort(np.concatenate([one, other]), axis=0)[: len(one)]
