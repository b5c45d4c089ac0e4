"""PortIndex: the rows on which each host port is in use; sparse, as a port is used on few nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from berth.model import HostPort

EVERY_ADDRESS = "0.0.0.0"


def clash(one: HostPort, other: HostPort) -> bool:
    """Whether the ports conflict on a node: equal protocol and number, and equal addresses or one is 0.0.0.0."""
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.ip == other.ip or EVERY_ADDRESS in (one.ip, other.ip)


def any_clash(some: Iterable[HostPort], others: Iterable[HostPort]) -> bool:
    """Whether one of these ports conflicts with one of those, in linear time."""
    held: dict[tuple[str, int], set[str]] = {}
    for port in some:
        held.setdefault((port.protocol, port.port), set()).add(port.ip)
    for port in others:
        addresses = held.get((port.protocol, port.port))
        if addresses and (port.ip == EVERY_ADDRESS or port.ip in addresses or EVERY_ADDRESS in addresses):
            return True
    return False


class PortIndex:
    """Counts by row, for each (protocol, port) and address; unused ports are dropped.

    A pod that wants a port on all addresses reads one count for all of them, because the number of addresses is not
    bounded.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], dict[str, Counter[int]]] = {}
        self._anywhere: dict[tuple[str, int], Counter[int]] = {}

    def add(self, port: HostPort, row: int) -> None:
        number = port.protocol, port.port
        self._held.setdefault(number, {}).setdefault(port.ip, Counter())[row] += 1
        self._anywhere.setdefault(number, Counter())[row] += 1

    def discard(self, port: HostPort, row: int) -> None:
        by_address, anywhere = self._held[port.protocol, port.port], self._anywhere[port.protocol, port.port]
        anywhere[row] -= 1
        if not anywhere[row]:
            del anywhere[row]
        rows = by_address[port.ip]
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
        if not rows:
            del by_address[port.ip]
        if not by_address:
            del self._held[port.protocol, port.port], self._anywhere[port.protocol, port.port]

    def clashing(self, wanted: HostPort) -> Iterator[Counter[int]]:
        """Yields counts by row of the ports that conflict with this one (see `clash`)."""
        number = wanted.protocol, wanted.port
        if number not in self._held:
            return
        if wanted.ip == EVERY_ADDRESS:
            yield self._anywhere[number]
            return
        by_address = self._held[number]
        for address in (wanted.ip, EVERY_ADDRESS):
            if address in by_address:
                yield by_address[address]

    def held_on(self, row: int) -> set[HostPort]:
        return {
            HostPort(address, protocol, port)
            for (protocol, port), by_address in self._held.items()
            for address, rows in by_address.items()
            if rows[row]
        }

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))
