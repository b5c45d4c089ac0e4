"""The policies of the cluster: which one decides for which pod, now.

    observe(manifest) ──► same object and generation as before? ──► nothing (our own status write came back)
                             │ no
                             ▼
                          load it ──► valid: becomes this policy's last good generation
                             │          invalid: the last good one stays; the problems go into the status
                             ▼
                          load the policies based on it, if its last good generation changed
                             ▼
                          settle: a PolicySelector for each schedulerName, with its policies in order
                             ├─► what is in force changed: call the listeners (on_change)
                             ├─► other policies may decide for pods of some schedulerNames: report these (on_deciders)
                             └─► a status changed: it is taken later (take_changes)

Rules
1. A policy is its last good generation, with schedulerName, selectors and mode. An invalid edit changes nothing, and a
   policy that was never valid claims nothing.
2. A policy is an object, not a name. Deleted and created again (another UID), it starts anew.
3. The built-in policy serves "berth" while no policy in mode Active claims that name, unless it is switched off.
   For pods of protected namespaces (`Limits`) only trusted policies count, here and everywhere.
4. What is in force is replaced at once, between two decisions. A caller may use an `ActivePolicy` that it took to the
   end of its decision.
5. A policy is resolved against the last good generation of its base, and again whenever that changes. If the base is
   missing or the bases form a cycle, the policy is refused, and its own last good generation stays. At the start
   nothing is missing before the list of policies is complete.

Everything happens in the caller's thread and is done when the call returns. The store writes nothing to the API server.
While another replica leads (`listen`), that replica writes the statuses. Ours continue from these, and none is taken
until `speak`.
After a restart counters and times continue from the status of the object. A policy whose latest generation is invalid
then has no last good one.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from berth.model import Pod
from berth.policy.compile import ActivePolicy, activate
from berth.policy.conflicts import Conflicts
from berth.policy.counting import read_counts
from berth.policy.defaults import BUILT_IN
from berth.policy.features import ALL, Features
from berth.policy.limits import NO_LIMITS, Limits
from berth.policy.policy_objects import PolicyObjects, PolicyRecord, identity_of
from berth.policy.records import Mode
from berth.policy.reviewing import PolicyReview, review_policy, review_removal
from berth.policy.selection import PolicySelector, selects
from berth.policy.status import PolicyStanding, PolicyState, Status, active_reason, describe, find_problem
from berth.policy.status_events import StatusChange
from berth.policy.unserved import NONE_IDLE, Idle, explain
from berth.policy.usage import Usage

__all__ = ["ActivePolicy", "PolicyStore"]

_EMPTY = PolicySelector(())  # of a schedulerName that no policy claims

_IN_FORCE = PolicyStanding(BUILT_IN.name, BUILT_IN.uid, 0, 0, BUILT_IN.scheduler_name, BUILT_IN.mode, "InForce")

Claims = dict[str, list[ActivePolicy]]
"""By schedulerName."""


class PolicyStore:
    """Decides which policy is in force, and what the statuses say.

    `built_in`: whether the built-in policy serves "berth" while no policy claims that name. `features`: what policies
    may use. `limits`: what they may not do. `is_complete`: no further policies are about to be listed; if they are, a
    policy without a valid base is not judged before `complete`.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        built_in: bool = True,
        features: Features = ALL,
        limits: Limits = NO_LIMITS,
        is_complete: bool = True,
    ) -> None:
        self._now = now
        self.usage = Usage(now)
        self._built_in = features.limited(activate(BUILT_IN)) if built_in else None
        self._limits = limits
        self._objects = PolicyObjects(features, limits, is_complete=is_complete)
        self._conflicts = Conflicts()
        self._selectors: dict[str, PolicySelector] = {}
        self._trusted_selectors: dict[str, PolicySelector] = {}  # for the pods of protected namespaces
        self._claims: Claims = {}  # what the selectors were built from
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
        """Returns the policy that decides for the pod, or None if none does (`unserved` says why)."""
        selector = self._selectors_for(pod).get(pod.scheduler_name)
        return None if selector is None else selector.choose(pod, namespace_labels)

    def shadows(self, pod: Pod, namespace_labels: Mapping[str, str]) -> Sequence[ActivePolicy]:
        """Returns the policies in Shadow mode that match the pod, by name."""
        listed = self._shadows.get(pod.scheduler_name)
        return [active for active in listed if selects(active.policy, pod, namespace_labels)] if listed else ()

    @property
    def has_shadows(self) -> bool:
        """Whether a policy is in Shadow mode."""
        return bool(self._shadows)

    def serves(self, scheduler_name: str) -> bool:
        """Whether pods of this scheduler name are ours, even if no policy decides for them now."""
        return scheduler_name in self._idle

    def scheduler_names(self) -> Collection[str]:
        """Returns all that are served."""
        return self._idle.keys()

    def unserved(self, pod: Pod, namespace_labels: Mapping[str, str]) -> str:
        """Returns the sentence that says why no policy decides for a pod."""
        name = pod.scheduler_name
        active = [entry.policy for entry in self._selectors_for(pod).get(name, _EMPTY).policies]
        idle = self._idle.get(name, NONE_IDLE)
        return explain(pod, namespace_labels, idle, active, self._untrusted(pod))

    def _selectors_for(self, pod: Pod) -> Mapping[str, PolicySelector]:
        return self._trusted_selectors if pod.namespace in self._limits.protected_namespaces else self._selectors

    def _untrusted(self, pod: Pod) -> list[str]:
        """Returns the policies that may not decide for the pod because its namespace is protected."""
        if pod.namespace not in self._limits.protected_namespaces:
            return []
        names = [entry.policy.name for entry in self._selectors.get(pod.scheduler_name, _EMPTY).policies]
        return [name for name in names if name not in self._limits.trusted_policies and name != BUILT_IN.name]

    def in_force(self) -> Collection[ActivePolicy]:
        """Returns the policies that decide for some pod, or evaluate pods in Shadow mode."""
        return self._in_force

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back whenever another policy may decide for some pod, or the reason changed why none does."""
        self._listeners.append(callback)

    def on_deciders(self, callback: Callable[[frozenset[str]], None]) -> None:
        """Calls back with the scheduler names for whose pods other policies may decide, or the reason changed why none
        does. A policy in Shadow mode decides for no pod.
        """
        self._followers.append(callback)

    # --- what is reported

    def observe(self, manifest: Mapping[str, object]) -> None:
        """Takes over a policy object as the API server has it. Never raises for what the manifest says."""
        name, uid, _ = identity_of(manifest)
        before = self._objects.records.get(name)
        loaded = self._objects.observe(manifest)
        if not loaded:
            self._listen_to(name, uid, manifest)
            return
        if before is None or before.uid != uid:
            self._begin_counting(self._objects.records[name], before)
        self._settle(loaded)

    def complete(self) -> None:
        """All policies of the cluster have been listed: a base that has not come is missing."""
        self._settle(self._objects.complete())

    def remove(self, name: str, uid: str = "") -> None:
        """Forgets a deleted policy. With a UID only that object: a late event of an older namesake does nothing."""
        record = self._objects.records.get(name)
        if record is None or (uid and uid != record.uid):
            return
        self.usage.end(name, record.uid)
        self._settle(self._objects.remove(name))

    # --- what would be said

    def review(self, manifest: Mapping[str, object]) -> PolicyReview:
        """Returns the problems and warnings that the policy would get if it were applied now. Changes nothing."""
        return review_policy(self._objects, self._conflicts, manifest)

    def review_removal(self, name: str) -> PolicyReview:
        """Returns what would be said if the policy were deleted now."""
        return review_removal(self._objects, name)

    # --- what there is to say

    def report(self) -> None:
        """Takes over the counters into the statuses. Until this is called the statuses do not change by them."""
        for active in self._in_force:
            self.usage.poll(active)
        changed = []
        for name, record in self._objects.records.items():
            counts = self.usage.counts(name, record.uid)
            if counts != record.counts or counts.failures:  # with time failures are no longer recent: Degraded ends
                record.counts = counts
                changed.append(name)
        self._update_statuses(changed)

    def statuses(self) -> dict[str, Status]:
        """Returns the statuses that changed since the last call, by policy name: those of `take_changes`."""
        return {change.name: change.status for change in self.take_changes()}

    def take_changes(self) -> list[StatusChange]:
        """Returns the statuses that changed since the last call, each with the one that the API server has.

        Each is a complete `status` for a merge patch: a field that is None is to be removed.
        """
        taken: list[StatusChange] = []
        for name, record in self._objects.records.items():
            if record.status is None or record.status is record.sent:
                continue
            if not _says(record.sent, record.status):
                taken.append(StatusChange(name, record.uid, record.sent, copy.deepcopy(record.status)))
                record.sent = record.status
        return taken

    def standings(self) -> list[PolicyStanding]:
        """Returns where every policy stands, by name; the built-in one while it decides for some pod."""
        found = [self._standing(record) for record in self._objects.records.values()]
        if self._built_in in self._in_force:
            found.append(_IN_FORCE)
        return sorted(found, key=lambda standing: standing.name)

    def _standing(self, record: PolicyRecord) -> PolicyStanding:
        state = self._state_of(record)
        active = state.in_force
        return PolicyStanding(
            record.name,
            record.uid,
            record.generation,
            0 if active is None else active.generation,
            record.scheduler_name,
            record.mode,
            active_reason(state),
            find_problem(state, self._now()),
        )

    def listen(self) -> None:
        """Leaves the statuses to another replica from now on."""
        self._is_listening = True

    def speak(self) -> None:
        """Writes the statuses from now on, and continues from what the other replicas wrote."""
        self._is_listening = False
        self._update_statuses(list(self._objects.records))

    def _listen_to(self, name: str, uid: str, manifest: Mapping[str, object]) -> None:
        record = self._objects.records.get(name)
        if self._is_listening and record is not None and record.uid == uid:
            record.sent = manifest.get("status")
            self._begin_counting(record, None)

    def statistics(self) -> dict[str, int]:
        records = self._objects.records.values()
        return {
            "policies": len(records),
            "refused": sum(1 for record in records if record.problems),
            "scheduler_names": len(self._selectors),
            "changes": self._changes,
        }

    # --- inside

    def _begin_counting(self, record: PolicyRecord, before: PolicyRecord | None) -> None:
        if before is not None:
            self.usage.end(before.name, before.uid)
        record.counts = read_counts(record.sent)
        self.usage.begin(record.name, record.uid, record.counts)

    def _settle(self, loaded: Iterable[str]) -> None:
        """Updates all that depends on the loaded policies: what is in force, the statuses, the callbacks."""
        concerned = set(loaded)
        for name in loaded:
            record = self._objects.records.get(name)
            if record is not None and record.last_good is not None and record.mode is Mode.ACTIVE:
                concerned |= self._conflicts.enter(record.last_good.policy)
            else:
                concerned |= self._conflicts.leave(name)
        before = self._in_force
        names = self._arrange()
        self._update_statuses(concerned)
        if names or self._in_force != before:
            self._changes += 1
            for tell in self._listeners:
                tell()
        if names:
            for follow in self._followers:
                follow(names)

    def _arrange(self) -> frozenset[str]:
        """Rebuilds the selectors; returns the scheduler names for whose pods that makes a difference."""
        claims: dict[str, list[ActivePolicy]] = {}
        shadows: dict[str, list[ActivePolicy]] = {}
        for name, record in sorted(self._objects.records.items()):
            good = record.last_good
            if good is not None and record.mode is Mode.SHADOW:
                shadows.setdefault(record.scheduler_name, []).append(good)
            elif good is not None and record.mode is Mode.ACTIVE and self._conflicts.superseder(name) is None:
                claims.setdefault(record.scheduler_name, []).append(good)
        if self._built_in is not None:
            claims.setdefault(BUILT_IN.scheduler_name, [self._built_in])
        trusted = self._find_trusted()
        idle = _idle(self._objects.records.values(), self._limits)
        listed_all = (*claims.values(), *shadows.values(), *trusted.values())
        in_force = tuple(dict.fromkeys(active for listed in listed_all for active in listed))
        self._selectors = {name: PolicySelector(listed) for name, listed in claims.items()}
        self._trusted_selectors = {name: PolicySelector(listed) for name, listed in trusted.items()}
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
        """Returns the policies that may decide in protected namespaces, by schedulerName, even if superseded."""
        claims: Claims = {}
        if not self._limits.protected_namespaces:
            return claims
        for name in sorted(self._limits.trusted_policies & self._objects.records.keys()):
            record = self._objects.records[name]
            if record.last_good is not None and record.mode is Mode.ACTIVE:
                claims.setdefault(record.scheduler_name, []).append(record.last_good)
        if self._built_in is not None:
            claims.setdefault(BUILT_IN.scheduler_name, [self._built_in])
        return claims

    def _reason(self, name: str, idle: Mapping[str, Idle]) -> Idle | None:
        """Returns what is said to pods of this scheduler name that no policy selects; None if one always does."""
        selectors = [self._selectors, *([self._trusted_selectors] if self._limits.protected_namespaces else [])]
        return None if all(by_name.get(name, _EMPTY).always for by_name in selectors) else idle.get(name)

    def _update_statuses(self, names: Iterable[str]) -> None:
        now = self._now()
        for name in names:
            record = self._objects.records.get(name)
            if record is not None and not record.waits_for_base:
                record.status = describe(self._state_of(record), now, record.sent, record.status)

    def _state_of(self, record: PolicyRecord) -> PolicyState:
        return PolicyState(
            record.generation,
            record.problems,
            record.last_good.policy if record.last_good is not None else None,
            record.fingerprint,
            self._conflicts.rivals(record.name),
            self._conflicts.superseder(record.name),
            record.counts,
        )


def _idle(records: Iterable[PolicyRecord], limits: Limits) -> dict[str, Idle]:
    """Returns, by schedulerName, the policies that are disabled or were never valid; pods of these names are ours.

    A policy that may not use its schedulerName makes no pods ours: another scheduler serves them.
    """
    listed: dict[str, tuple[list[str], list[str]]] = {BUILT_IN.scheduler_name: ([], [])}
    for record in records:
        name = record.scheduler_name
        if record.mode is not Mode.SHADOW and name and not limits.reserves(name, record.name):
            disabled, never_valid = listed.setdefault(name, ([], []))
            if record.last_good is None:
                never_valid.append(record.name)
            elif record.mode is Mode.DISABLED:
                disabled.append(record.name)
    return {name: Idle(*(tuple(sorted(group)) for group in groups)) for name, groups in listed.items()}


def _says(before: object, status: Status) -> bool:
    """Whether the object has this status already. Fields that others wrote beside ours do not matter."""
    return isinstance(before, Mapping) and all(before.get(key) == value for key, value in status.items())
