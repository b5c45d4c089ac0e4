"""Which rows hold which host ports: sparse, as a port is held on few nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from berth.model import HostPort

EVERY_ADDRESS = "0.0.0.0"


def clash(one: HostPort, other: HostPort) -> bool:
    """Whether no node can hold both: same protocol and number, and one address or every."""
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.ip == other.ip or EVERY_ADDRESS in (one.ip, other.ip)


def any_clash(some: Iterable[HostPort], others: Iterable[HostPort]) -> bool:
    """Whether one of these clashes with one of those, in one look at each."""
    held: dict[tuple[str, int], set[str]] = {}
    for port in some:
        held.setdefault((port.protocol, port.port), set()).add(port.ip)
    for port in others:
        addresses = held.get((port.protocol, port.port))
        if addresses and (port.ip == EVERY_ADDRESS or port.ip in addresses or EVERY_ADDRESS in addresses):
            return True
    return False


class PortIndex:
    """Row counts by (protocol, port) and address; what nobody holds any more is forgotten.

    A pod that wants a port on all addresses looks at one count of all of them, not at each: a pod may name any
    number.
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
        """The rows of the ports that this one clashes with: same protocol and number, and one address or every."""
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
