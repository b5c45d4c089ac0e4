"""Which rows hold which host ports: sparse, as a port is held on few nodes."""

from collections import Counter
from collections.abc import Iterator

from berth.model import HostPort

EVERY_ADDRESS = "0.0.0.0"


def clash(one: HostPort, other: HostPort) -> bool:
    """Whether no node can hold both: same protocol and number, and one address or every."""
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.ip == other.ip or EVERY_ADDRESS in (one.ip, other.ip)


class PortIndex:
    """Row counts by (protocol, port) and address; what nobody holds any more is forgotten."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], dict[str, Counter[int]]] = {}

    def add(self, port: HostPort, row: int) -> None:
        self._held.setdefault((port.protocol, port.port), {}).setdefault(port.ip, Counter())[row] += 1

    def discard(self, port: HostPort, row: int) -> None:
        by_address = self._held[port.protocol, port.port]
        rows = by_address[port.ip]
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
        if not rows:
            del by_address[port.ip]
        if not by_address:
            del self._held[port.protocol, port.port]

    def clashing(self, wanted: HostPort) -> Iterator[Counter[int]]:
        """The rows of each port that this one clashes with: same protocol and number, and one address or every."""
        for address, rows in self._held.get((wanted.protocol, wanted.port), {}).items():
            if address == wanted.ip or EVERY_ADDRESS in (address, wanted.ip):
                yield rows

    def held_on(self, row: int) -> set[HostPort]:
        return {
            HostPort(address, protocol, port)
            for (protocol, port), by_address in self._held.items()
            for address, rows in by_address.items()
            if rows[row]
        }

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))
