"""Notices replicas of another installation that meet ours in the same peering object.

Replicas elect one leader among all records of the object. Two releases of Berth with the same peering name are one
group by that: only one of them schedules, under its own settings, and the other stands by for ever while its users wait
for what they have configured. Nothing is bound twice, and nobody can tell which of the two is meant, so it is said, and
nothing else is done.

An identity begins with the installation that it belongs to and a slash; one without a slash belongs to an unknown one.
"""

import logging
from collections.abc import Iterable

SHOWN = 5

_log = logging.getLogger(__name__)


def make_identity(installation: str, host: str, token: str) -> str:
    name = f"{host}_{token}"
    return f"{installation}/{name}" if installation else name


def installation_of(identity: str) -> str:
    """The installation that a replica belongs to, "" where that is unknown."""
    return identity.rpartition("/")[0]


class Neighbours:
    """Of a replica of this installation, in the peering object of this name."""

    def __init__(self, installation: str, peering_name: str) -> None:
        self._installation = installation
        self._peering_name = peering_name
        self._foreign: frozenset[str] = frozenset()  # installations that have been reported
        self.count = 0

    def look(self, identities: Iterable[str]) -> None:
        """These other replicas are alive."""
        foreign = [each for each in map(installation_of, identities) if each and each != self._installation]
        self.count = len(foreign) if self._installation else 0
        found = frozenset(foreign) if self._installation else frozenset()
        if found != self._foreign:
            self._foreign = found
            self._say()

    def _say(self) -> None:
        if not self._foreign:
            _log.info("No replica of another installation is in ClusterKopfPeering %s any more", self._peering_name)
            return
        _log.error(
            "Replicas of another installation (%s) are in ClusterKopfPeering %s, as those of this one (%s): only one "
            "of all of them schedules; give each installation a --peering-name of its own",
            *(", ".join(sorted(self._foreign)[:SHOWN]), self._peering_name, self._installation),
        )
