"""The book of policies: which one decides for which pod, now.

    observe(manifest) ──► same object and generation as before? ──► nothing (an echo of our own status write)
                             │ no
                             ▼
                          load it ──► good: becomes this policy's last good generation
                             │          bad: the last good one stays; the problems are kept for the status
                             ▼
                          load what is based on it, if its last good generation is another one now
                             ▼
                          settle: a desk for each schedulerName, where the policies that claim it are in order
                             ├─► something in force is different: tell the listeners (on_change)
                             ├─► other policies may decide for pods of some schedulerNames: tell which (on_deciders)
                             └─► a status reads different: it waits to be taken (statuses)

Rules
1. A policy is what its last good generation says, schedulerName, selectors and mode included: a bad edit moves
   nothing, and a policy that was never good claims nothing.
2. A policy is an object, not a name: deleted and made again (another UID) it starts anew.
3. The built-in policy serves "berth" while no policy in mode Active claims that name, unless it is switched off.
   For pods of protected namespaces (`Limits`) only trusted policies count, here and everywhere.
4. What is in force is replaced as a whole, between two decisions; who took an `ActivePolicy` may use it to the end.
5. A policy is resolved against the last good generation of its base, and again whenever that is another one. Where
   the base is missing or its bases form a ring, the policy is refused, and its own last good generation stays.

Everything happens in the caller's thread and is done when the call returns. The book writes nothing to the API server.
While another replica leads (`listen`), the statuses that it writes are where ours go on from, and none of ours waits to
be taken until `speak`.
After a restart counters and times go on from the status found on the object, but a policy whose latest generation is
bad has no last good one.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from berth.model import Pod
from berth.policy.choice import Desk, selects
from berth.policy.compile import ActivePolicy, activate
from berth.policy.contest import Contest
from berth.policy.counting import read_counts
from berth.policy.defaults import BUILT_IN
from berth.policy.features import ALL, Features
from berth.policy.limits import NO_LIMITS, Limits
from berth.policy.records import Mode
from berth.policy.shelf import Page, Shelf, identity_of
from berth.policy.status import Standing, Status, describe
from berth.policy.unserved import NONE_IDLE, Idle, explain
from berth.policy.usage import Usage

__all__ = ["ActivePolicy", "PolicyBook"]

_EMPTY = Desk(())

Claims = dict[str, list[ActivePolicy]]
"""By schedulerName."""


class PolicyBook:
    """`built_in`: whether the built-in policy serves "berth" while no policy claims that name; `features`: what
    policies may rely on; `limits`: what they may not do.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        built_in: bool = True,
        features: Features = ALL,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self._now = now
        self.usage = Usage(now)
        self._built_in = features.limited(activate(BUILT_IN)) if built_in else None
        self._limits = limits
        self._shelf = Shelf(features, limits)
        self._contest = Contest()
        self._desks: dict[str, Desk] = {}
        self._trusted_desks: dict[str, Desk] = {}  # for the pods of protected namespaces
        self._claims: Claims = {}  # what the desks are made of
        self._trusted_claims: Claims = {}
        self._shadows: dict[str, tuple[ActivePolicy, ...]] = {}
        self._idle: dict[str, Idle] = {}  # for every schedulerName that is ours
        self._in_force: tuple[ActivePolicy, ...] = ()
        self._listeners: list[Callable[[], None]] = []
        self._followers: list[Callable[[frozenset[str]], None]] = []
        self._changes = 0
        self._is_listening = False
        self._arrange()

    # --- what decides

    def for_pod(self, pod: Pod, namespace_labels: Mapping[str, str]) -> ActivePolicy | None:
        """The policy that decides for the pod, or None where none does (`unserved` says why)."""
        desk = self._desks_for(pod).get(pod.scheduler_name)
        return None if desk is None else desk.choose(pod, namespace_labels)

    def shadows(self, pod: Pod, namespace_labels: Mapping[str, str]) -> Sequence[ActivePolicy]:
        """The policies in Shadow mode that match the pod, by name."""
        listed = self._shadows.get(pod.scheduler_name)
        return [active for active in listed if selects(active.policy, pod, namespace_labels)] if listed else ()

    def serves(self, scheduler_name: str) -> bool:
        """Whether pods of this scheduler name are ours, even where no policy decides for them now."""
        return scheduler_name in self._idle

    def scheduler_names(self) -> Collection[str]:
        """All that are served."""
        return self._idle.keys()

    def unserved(self, pod: Pod, namespace_labels: Mapping[str, str]) -> str:
        """Why no policy decides for a pod, in words."""
        name = pod.scheduler_name
        active = [entry.policy for entry in self._desks_for(pod).get(name, _EMPTY).policies]
        idle = self._idle.get(name, NONE_IDLE)
        return explain(pod, namespace_labels, idle, active, self._untrusted(pod))

    def _desks_for(self, pod: Pod) -> Mapping[str, Desk]:
        return self._trusted_desks if pod.namespace in self._limits.protected_namespaces else self._desks

    def _untrusted(self, pod: Pod) -> list[str]:
        """The policies that may not decide for the pod because its namespace is protected."""
        if pod.namespace not in self._limits.protected_namespaces:
            return []
        names = [entry.policy.name for entry in self._desks.get(pod.scheduler_name, _EMPTY).policies]
        return [name for name in names if name not in self._limits.trusted_policies and name != BUILT_IN.name]

    def in_force(self) -> Collection[ActivePolicy]:
        """All that decide for some pod, or judge in the shadow."""
        return self._in_force

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call this whenever another policy may decide for some pod, or the reason has changed why none does."""
        self._listeners.append(callback)

    def on_deciders(self, callback: Callable[[frozenset[str]], None]) -> None:
        """Call this with the scheduler names for whose pods other policies may decide, or other reasons say why none
        does. A policy in Shadow mode decides for no pod.
        """
        self._followers.append(callback)

    # --- what is reported

    def observe(self, manifest: Mapping[str, object]) -> None:
        """A policy exists in this form. Never raises for what the manifest says."""
        name, uid, _ = identity_of(manifest)
        before = self._shelf.pages.get(name)
        loaded = self._shelf.observe(manifest)
        if not loaded:
            self._listen_to(name, uid, manifest)
            return
        if before is None or before.uid != uid:
            self._begin_counting(self._shelf.pages[name], before)
        self._settle(loaded)

    def remove(self, name: str, uid: str = "") -> None:
        """The policy is gone. With a UID only that very object: a late word of an older namesake does nothing."""
        page = self._shelf.pages.get(name)
        if page is None or (uid and uid != page.uid):
            return
        self.usage.end(name, page.uid)
        self._settle(self._shelf.remove(name))

    # --- what there is to say

    def report(self) -> None:
        """Bring what was counted into the statuses; they say what they said before until this is called."""
        for active in self._in_force:
            self.usage.poll(active)
        news = []
        for name, page in self._shelf.pages.items():
            counts = self.usage.counts(name, page.uid)
            if counts != page.counts or counts.failures:  # failures become old, and Degraded ends
                page.counts = counts
                news.append(name)
        self._state(news)

    def statuses(self) -> dict[str, Status]:
        """The statuses that changed since they were last taken, by policy name.

        Whole values of `status`, for a merge patch: a field that is None is to be removed.
        """
        taken: dict[str, Status] = {}
        for name, page in self._shelf.pages.items():
            if page.status is None or page.status is page.sent:
                continue
            if not _says(page.sent, page.status):
                taken[name] = copy.deepcopy(page.status)
                page.sent = page.status
        return taken

    def listen(self) -> None:
        """Another replica writes the statuses from now on."""
        self._is_listening = True

    def speak(self) -> None:
        """The statuses are ours to write from now on, and go on from what the others have written."""
        self._is_listening = False
        self._state(list(self._shelf.pages))

    def _listen_to(self, name: str, uid: str, manifest: Mapping[str, object]) -> None:
        page = self._shelf.pages.get(name)
        if self._is_listening and page is not None and page.uid == uid:
            page.sent = manifest.get("status")
            self._begin_counting(page, None)

    def statistics(self) -> dict[str, int]:
        pages = self._shelf.pages.values()
        return {
            "policies": len(pages),
            "refused": sum(1 for page in pages if page.problems),
            "scheduler_names": len(self._desks),
            "changes": self._changes,
        }

    # --- inside

    def _begin_counting(self, page: Page, before: Page | None) -> None:
        if before is not None:
            self.usage.end(before.name, before.uid)
        page.counts = read_counts(page.sent)
        self.usage.begin(page.name, page.uid, page.counts)

    def _settle(self, loaded: Iterable[str]) -> None:
        """Everything that follows from other pages: what is in force, the statuses, and who has to know."""
        concerned = set(loaded)
        for name in loaded:
            page = self._shelf.pages.get(name)
            if page is not None and page.last_good is not None and page.mode is Mode.ACTIVE:
                concerned |= self._contest.enter(page.last_good.policy)
            else:
                concerned |= self._contest.leave(name)
        before = self._in_force
        names = self._arrange()
        self._state(concerned)
        if names or self._in_force != before:
            self._changes += 1
            for tell in self._listeners:
                tell()
        if names:
            for follow in self._followers:
                follow(names)

    def _arrange(self) -> frozenset[str]:
        """Put every policy into its place; gives the scheduler names for whose pods that makes a difference."""
        claims: dict[str, list[ActivePolicy]] = {}
        shadows: dict[str, list[ActivePolicy]] = {}
        for name, page in sorted(self._shelf.pages.items()):
            good = page.last_good
            if good is not None and page.mode is Mode.SHADOW:
                shadows.setdefault(page.scheduler_name, []).append(good)
            elif good is not None and page.mode is Mode.ACTIVE and self._contest.superseder(name) is None:
                claims.setdefault(page.scheduler_name, []).append(good)
        if self._built_in is not None:
            claims.setdefault(BUILT_IN.scheduler_name, [self._built_in])
        trusted = self._find_trusted()
        idle = _idle(self._shelf.pages.values(), self._limits)
        listed_all = (*claims.values(), *shadows.values(), *trusted.values())
        in_force = tuple(dict.fromkeys(active for listed in listed_all for active in listed))
        self._desks = {name: Desk(listed) for name, listed in claims.items()}
        self._trusted_desks = {name: Desk(listed) for name, listed in trusted.items()}
        self._shadows = {name: tuple(listed) for name, listed in shadows.items()}
        known = {*claims, *self._claims, *trusted, *self._trusted_claims, *idle, *self._idle}
        changed = frozenset(
            name
            for name in known
            if claims.get(name) != self._claims.get(name)
            or trusted.get(name) != self._trusted_claims.get(name)
            or self._reason(name, idle) != self._reason(name, self._idle)
        )
        self._in_force, self._idle = in_force, idle
        self._claims, self._trusted_claims = claims, trusted
        return changed

    def _find_trusted(self) -> Claims:
        """By schedulerName, the policies that may decide in protected namespaces, even if superseded elsewhere."""
        claims: Claims = {}
        if not self._limits.protected_namespaces:
            return claims
        for name in sorted(self._limits.trusted_policies & self._shelf.pages.keys()):
            page = self._shelf.pages[name]
            if page.last_good is not None and page.mode is Mode.ACTIVE:
                claims.setdefault(page.scheduler_name, []).append(page.last_good)
        if self._built_in is not None:
            claims.setdefault(BUILT_IN.scheduler_name, [self._built_in])
        return claims

    def _reason(self, name: str, idle: Mapping[str, Idle]) -> Idle | None:
        """What is said to pods of this scheduler name for which no policy decides; None where one always does."""
        desks = [self._desks, *([self._trusted_desks] if self._limits.protected_namespaces else [])]
        return None if all(by_name.get(name, _EMPTY).always for by_name in desks) else idle.get(name)

    def _state(self, names: Iterable[str]) -> None:
        now = self._now()
        for name in names:
            page = self._shelf.pages.get(name)
            if page is not None:
                page.status = describe(self._standing(page), now, page.sent, page.status)

    def _standing(self, page: Page) -> Standing:
        return Standing(
            page.generation,
            page.problems,
            page.last_good.policy if page.last_good is not None else None,
            page.fingerprint,
            self._contest.rivals(page.name),
            self._contest.superseder(page.name),
            page.counts,
        )


def _idle(pages: Iterable[Page], limits: Limits) -> dict[str, Idle]:
    """By schedulerName, with that of the built-in policy: pods that ask for it are ours.

    A policy that may not have its name makes no pods ours: another scheduler serves them.
    """
    listed: dict[str, tuple[list[str], list[str]]] = {BUILT_IN.scheduler_name: ([], [])}
    for page in pages:
        if page.mode is not Mode.SHADOW and page.scheduler_name and not limits.reserves(page.scheduler_name, page.name):
            disabled, never_valid = listed.setdefault(page.scheduler_name, ([], []))
            if page.last_good is None:
                never_valid.append(page.name)
            elif page.mode is Mode.DISABLED:
                disabled.append(page.name)
    return {name: Idle(*(tuple(sorted(group)) for group in groups)) for name, groups in listed.items()}


def _says(before: object, status: Status) -> bool:
    """Whether a status reads so already; what others may have put beside our fields does not matter."""
    return isinstance(before, Mapping) and all(before.get(key) == value for key, value in status.items())
