"""The book of policies: which one decides for which scheduler name, now.

    observe(manifest) ──► same object and generation as before? ──► nothing (an echo of our own status write)
                             │ no
                             ▼
                          load it ──► good: becomes this policy's last good generation
                             │          bad: the last good one stays; the problems are kept for the status
                             ▼
                          settle: each scheduler name goes to the first claiming policy by name
                             ├─► something in force is different: tell whoever asked (on_change)
                             └─► a status reads different: it waits to be taken (statuses)

Rules
1. A policy claims the scheduler name of its last good generation, so a bad edit moves nothing and one that was never
   good claims nothing.
2. A policy is an object, not a name: deleted and made again (another UID) it starts anew.
3. "berth" is served by the built-in policy while no policy claims it; a name that nobody claims is served by nobody.
4. What is in force is replaced as a whole, between two decisions; who took an `ActivePolicy` may use it to the end.

Everything happens in the caller's thread and is done when the call returns. The book writes nothing to the API server
and remembers nothing beyond its process: after a restart a policy whose latest generation is bad has no last good
one.
"""

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from berth.policy.compile import ActivePolicy, compile_policy, load_policy
from berth.policy.defaults import BUILT_IN
from berth.policy.records import PolicyError, Problem
from berth.policy.status import Standing, Status, describe

__all__ = ["ActivePolicy", "PolicyBook"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Page:
    """What the book knows of one policy object."""

    uid: str
    generation: int
    last_good: ActivePolicy | None = None
    problems: tuple[Problem, ...] = ()
    status: object = None  # as on the API server, or as we asked for it to be
    unsent: bool = field(default=False)  # status is news that nobody has taken yet


class PolicyBook:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._pages: dict[str, _Page] = {}
        self._built_in = ActivePolicy(BUILT_IN, compile_policy(BUILT_IN))
        self._in_force: dict[str, ActivePolicy] = {BUILT_IN.scheduler_name: self._built_in}
        self._listeners: list[Callable[[], None]] = []
        self._changes = 0

    # --- what decides

    def for_scheduler(self, scheduler_name: str) -> ActivePolicy | None:
        """The policy in force for pods of this scheduler name, or None where nobody serves it."""
        return self._in_force.get(scheduler_name)

    def serves(self, scheduler_name: str) -> bool:
        return scheduler_name in self._in_force

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this whenever what is in force for some scheduler name has changed."""
        self._listeners.append(callback)

    # --- what is reported

    def observe(self, manifest: Mapping[str, object]) -> None:
        """A policy exists in this form. Never raises for what the manifest says."""
        metadata = manifest.get("metadata")
        name, uid, generation = _identity(metadata if isinstance(metadata, Mapping) else {})
        if not name:
            logger.warning("A SchedulingPolicy without metadata.name was reported; it is ignored.")
            return
        page = self._pages.get(name)
        if page is None or page.uid != uid:
            page = self._pages[name] = _Page(uid, 0, status=manifest.get("status"))
        elif generation and generation <= page.generation:
            return
        page.generation = generation
        self._load(name, page, manifest)
        self._settle()

    def remove(self, name: str, uid: str = "") -> None:
        """The policy is gone. With a UID only that very object: a late word of an older namesake does nothing."""
        page = self._pages.get(name)
        if page is None or (uid and uid != page.uid):
            return
        del self._pages[name]
        self._settle()

    # --- what there is to say

    def statuses(self) -> dict[str, Status]:
        """The statuses that changed since they were last taken, by policy name: whole values of `status`."""
        taken: dict[str, Status] = {}
        for name, page in self._pages.items():
            if page.unsent and isinstance(page.status, dict):
                taken[name] = copy.deepcopy(page.status)
                page.unsent = False
        return taken

    def statistics(self) -> dict[str, int]:
        pages = self._pages.values()
        return {
            "policies": len(pages),
            "refused": sum(1 for page in pages if page.problems),
            "scheduler_names": len(self._in_force),
            "changes": self._changes,
        }

    # --- inside

    def _load(self, name: str, page: _Page, manifest: Mapping[str, object]) -> None:
        try:
            page.last_good, page.problems = load_policy(manifest), ()
        except PolicyError as error:
            page.problems = error.problems
            logger.warning("Generation %d is refused: %s", page.generation, error)
        else:
            logger.info("SchedulingPolicy %s: generation %d is valid.", name, page.generation)

    def _settle(self) -> None:
        """Everything that follows from the pages: what is in force, the statuses, and who has to know."""
        claims = self._claims()
        in_force = {BUILT_IN.scheduler_name: self._built_in}
        for scheduler_name, claimants in claims.items():
            winner = self._pages[claimants[0]].last_good
            assert winner is not None, "only a policy with a good generation claims a name"
            in_force[scheduler_name] = winner
        changed = in_force != self._in_force
        self._in_force = in_force
        self._write_statuses(claims)
        if changed:
            self._changes += 1
            for tell in self._listeners:
                tell()

    def _claims(self) -> dict[str, tuple[str, ...]]:
        """Scheduler name -> the policies that claim it, by name."""
        claims: dict[str, tuple[str, ...]] = {}
        for name in sorted(self._pages):
            good = self._pages[name].last_good
            if good is not None:
                scheduler_name = good.policy.scheduler_name
                claims[scheduler_name] = (*claims.get(scheduler_name, ()), name)
        return claims

    def _write_statuses(self, claims: Mapping[str, tuple[str, ...]]) -> None:
        now = self._now()
        for page in self._pages.values():
            good = page.last_good.policy if page.last_good else None
            claimants = claims[good.scheduler_name] if good else ()
            status = describe(Standing(page.generation, page.problems, good, claimants), page.status, now)
            if not _says(page.status, status):
                page.status, page.unsent = status, True


def _says(before: object, status: Status) -> bool:
    """Whether a status reads so already; what others may have put beside our fields does not matter."""
    return isinstance(before, Mapping) and all(before.get(key) == value for key, value in status.items())


def _identity(metadata: Mapping[str, object]) -> tuple[str, str, int]:
    name, uid, generation = (metadata.get(key) for key in ("name", "uid", "generation"))
    return (
        name if isinstance(name, str) else "",
        uid if isinstance(uid, str) else "",
        generation if isinstance(generation, int) and not isinstance(generation, bool) else 0,
    )
