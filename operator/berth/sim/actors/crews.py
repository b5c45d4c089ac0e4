"""Pods made for an owner: the next names, and those that were made but have not been seen yet.

Names count up (`web-0a1b2-00007`): a request whose answer was lost is sent again under the same name, and "already
exists" is then its success. A pod that was made counts from that moment on, not from when the mirror shows it, or more
would be made than are wanted.
"""

from dataclasses import dataclass, field

from berth.sim.actors.clock import Clock

UNSEEN_SECONDS = 30.0
DIGITS = 5


@dataclass(slots=True)
class _Crew:
    next_number: int = 0
    unseen: dict[str, float] = field(default_factory=dict)  # name to when it was made


class Crews:
    """By the owner's UID."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._crews: dict[str, _Crew] = {}

    def next_name(self, owner_uid: str, owner_name: str) -> str:
        """The name that the next pod gets, until `made` says that it has it."""
        number = self._crews.setdefault(owner_uid, _Crew()).next_number
        return f"{owner_name}-{number:0{DIGITS}}"

    def made(self, owner_uid: str, name: str, *, now: bool) -> None:
        """The name is used up; `now`: by a pod that was made now and will be seen."""
        crew = self._crews.setdefault(owner_uid, _Crew())
        crew.next_number += 1
        if now:
            crew.unseen[name] = self._clock.now()

    def seen(self, owner_uid: str, name: str) -> None:
        crew = self._crews.get(owner_uid)
        if crew is not None:
            crew.unseen.pop(name, None)

    def unseen(self, owner_uid: str) -> int:
        """How many are on their way; those that should have been seen long ago came and went unnoticed."""
        crew = self._crews.get(owner_uid)
        if crew is None:
            return 0
        latest = self._clock.now() - UNSEEN_SECONDS
        crew.unseen = {name: made for name, made in crew.unseen.items() if made > latest}
        return len(crew.unseen)

    def dismiss(self, owner_uid: str) -> None:
        """The owner is gone."""
        self._crews.pop(owner_uid, None)
