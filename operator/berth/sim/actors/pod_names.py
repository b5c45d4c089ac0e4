"""Names of the pods of an owner: the next one, and those of pods that were created but not seen yet.

Names count up (`web-0a1b2-00007`). A request whose response was lost is sent again with the same name, and "already
exists" is then a success. A created pod counts at once, not when the mirror shows it; otherwise too many would be
created.
"""

from dataclasses import dataclass, field

from berth.sim.actors.clock import Clock

UNSEEN_SECONDS = 30.0
DIGITS = 5


@dataclass(slots=True)
class _OwnedPods:
    next_number: int = 0
    unseen: dict[str, float] = field(default_factory=dict)  # name to when it was made


class PodNames:
    """Names and unseen pods, by the owner's UID."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._names: dict[str, _OwnedPods] = {}

    def next_name(self, owner_uid: str, owner_name: str) -> str:
        """Returns the name of the next pod; the same one until `made` is called."""
        number = self._names.setdefault(owner_uid, _OwnedPods()).next_number
        return f"{owner_name}-{number:0{DIGITS}}"

    def made(self, owner_uid: str, name: str, *, now: bool) -> None:
        """Marks the name as used; `now`: by a pod that was created now and will be seen."""
        owned = self._names.setdefault(owner_uid, _OwnedPods())
        owned.next_number += 1
        if now:
            owned.unseen[name] = self._clock.now()

    def seen(self, owner_uid: str, name: str) -> None:
        owned = self._names.get(owner_uid)
        if owned is not None:
            owned.unseen.pop(name, None)

    def unseen(self, owner_uid: str) -> int:
        """Returns how many created pods were not seen yet; after UNSEEN_SECONDS they count as deleted."""
        owned = self._names.get(owner_uid)
        if owned is None:
            return 0
        latest = self._clock.now() - UNSEEN_SECONDS
        owned.unseen = {name: made for name, made in owned.unseen.items() if made > latest}
        return len(owned.unseen)

    def dismiss(self, owner_uid: str) -> None:
        """Forgets an owner that was deleted."""
        self._names.pop(owner_uid, None)
