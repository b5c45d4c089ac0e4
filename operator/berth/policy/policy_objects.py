"""The policy objects of the cluster: each with its latest manifest, and its last good generation ready to decide.

A policy is loaded when its object has a new generation, and again when its resolved base changed. Bases are compared by
identity: one that is loaded again with the same meaning stays the same object, so that nothing based on it is loaded.
While objects are still being listed, one without a valid base is not judged: its base may be the next one.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from berth.policy.bases import Bases, dependants, find_ring
from berth.policy.compile import ActivePolicy, load_policy
from berth.policy.features import ALL, Features
from berth.policy.fingerprint import fingerprint
from berth.policy.limits import NO_LIMITS, Limits
from berth.policy.records import Mode, Policy, PolicyError, Problem
from berth.policy.schema import base_of
from berth.policy.usage import NO_COUNTS, Counts

Manifest = Mapping[str, object]
ResolvedBase = ActivePolicy | tuple[str, ...] | None
"""The base; or the names of the cycle that it is in; None if there is no such policy, or none is needed."""

logger = logging.getLogger(__name__)
_SILENT = logging.Logger("trials of policies", logging.CRITICAL)  # outside the hierarchy, so that it stays off


@dataclass(slots=True)
class PolicyRecord:
    """What is known of one policy object."""

    name: str
    uid: str
    generation: int = 0
    manifest: Manifest = field(default_factory=dict)
    base: str | None = None
    resolved_base: ResolvedBase = None  # from which `last_good` or `problems` follow
    last_good: ActivePolicy | None = None
    fingerprint: str = ""  # of last_good
    problems: tuple[Problem, ...] = ()
    waits_for_base: bool = False  # not judged yet: the list that may have its base is not complete
    counts: Counts = NO_COUNTS  # as last reported
    sent: object = None  # the status as on the API server, or as it was taken to be written
    status: dict[str, object] | None = None  # the status as it should be

    @property
    def mode(self) -> Mode:
        """The mode of the last good generation; of a policy that was never valid, the manifest's if it is a mode."""
        if self.last_good is not None:
            return self.last_good.policy.mode
        given = self._spec().get("mode")
        return next((mode for mode in Mode if mode == given), Mode.ACTIVE)

    @property
    def scheduler_name(self) -> str:
        if self.last_good is not None:
            return self.last_good.policy.scheduler_name
        given = self._spec().get("schedulerName")
        return given if isinstance(given, str) else ""

    def _spec(self) -> Mapping[str, object]:
        spec = self.manifest.get("spec")
        return spec if isinstance(spec, Mapping) else {}


class PolicyObjects:
    """Loads policy objects. `features`: what policies may use; `limits`: what they may not do.

    `is_complete`: whether a base that is not among them is missing; if not, it may still come, until `complete`.
    `is_logged`: whether the log says what was loaded.
    """

    def __init__(
        self, features: Features = ALL, limits: Limits = NO_LIMITS, *, is_complete: bool = True, is_logged: bool = True
    ) -> None:
        self._features = features
        self._limits = limits
        self._is_complete = is_complete
        self._log = logger if is_logged else _SILENT
        self.records: dict[str, PolicyRecord] = {}

    def observe(self, manifest: Manifest) -> list[str]:
        """Loads the object if its generation is new; returns the names of all policies that were loaded."""
        name, uid, generation = identity_of(manifest)
        if not name:
            logger.warning("A SchedulingPolicy without metadata.name was reported; it is ignored.")
            return []
        record = self.records.get(name)
        if record is None or record.uid != uid:
            record = self.records[name] = PolicyRecord(name, uid, sent=manifest.get("status"))
        elif generation and generation <= record.generation:
            return []
        record.generation = generation
        record.manifest = {key: value for key, value in manifest.items() if key != "status"}
        record.base = base_of(manifest)
        record.resolved_base = self._resolved_base(record, self._bases())
        record.waits_for_base = not self._is_complete and record.base is not None and record.resolved_base is None
        if not record.waits_for_base:
            self._load(record)
        return [name, *self._follow(name)]

    def trial(self) -> "PolicyObjects":
        """Returns a copy to try a change on: it logs nothing, and this one does not change with it."""
        copy = PolicyObjects(self._features, self._limits, is_logged=False)
        copy.records = {name: replace(record) for name, record in self.records.items()}
        return copy

    def complete(self) -> list[str]:
        """All objects are listed: judges those whose base has not come; returns the names of all that were loaded."""
        self._is_complete = True
        waiting = [record for record in self.records.values() if record.waits_for_base]
        for record in waiting:
            self._load(record)
        return [record.name for record in waiting]

    def remove(self, name: str) -> list[str]:
        """Forgets a deleted object; returns its name and those of the policies that were loaded."""
        del self.records[name]
        return [name, *self._follow(name)]

    def _follow(self, name: str) -> list[str]:
        """Loads the policies based on this one whose resolved base changed; returns their names."""
        loaded = []
        bases = self._bases()
        for dependant in dependants(name, bases):
            record = self.records[dependant]
            resolved_base = self._resolved_base(record, bases)
            if resolved_base != record.resolved_base:
                record.resolved_base = resolved_base
                self._load(record)
                loaded.append(dependant)
        return loaded

    def _resolved_base(self, record: PolicyRecord, bases: Bases) -> ResolvedBase:
        if record.base is None:
            return None
        base = self.records.get(record.base)
        return find_ring(record.name, bases) or (base.last_good if base is not None else None)

    def _bases(self) -> Bases:
        return {name: record.base for name, record in self.records.items()}

    def _load(self, record: PolicyRecord) -> None:
        record.waits_for_base = False
        try:
            active = self._resolve(record)
        except PolicyError as error:
            record.problems = error.problems
            self._log.warning("Generation %d is refused: %s", record.generation, error, extra=_fields(record))
            return
        record.problems = ()
        meaning = fingerprint(active.policy)
        known = record.last_good
        if known is None or known.policy.generation != record.generation or record.fingerprint != meaning:
            record.last_good, record.fingerprint = active, meaning
            text = "SchedulingPolicy %s: generation %d (%s) is valid."
            self._log.info(text, record.name, record.generation, meaning, extra=_fields(record))

    def _resolve(self, record: PolicyRecord) -> ActivePolicy:
        """Raises PolicyError whatever goes wrong: one policy must not prevent the others from loading."""
        refusals = self._features.refusals(record.manifest)
        if refusals:
            raise PolicyError(record.name, refusals)
        bases = {name: other.last_good.policy for name, other in self.records.items() if other.last_good is not None}
        if not isinstance(record.resolved_base, tuple):
            return self._allowed(record, self._features.limited(_load(record, bases)))
        bases.pop(record.resolved_base[1], None)
        ring = " -> ".join(record.resolved_base)
        message = f"the bases form a ring, {ring}; base one of them on KubernetesDefault or Empty"
        try:
            return self._allowed(record, self._features.limited(_load(record, bases)))
        except PolicyError as error:
            others = [problem for problem in error.problems if problem.field != "spec.base"]
            raise PolicyError(record.name, [Problem("spec.base", message), *others]) from None

    def _allowed(self, record: PolicyRecord, active: ActivePolicy) -> ActivePolicy:
        refusals = tuple(self._limits.refusals(active.policy, record.base))
        if refusals:
            raise PolicyError(record.name, refusals)
        return active


def _load(record: PolicyRecord, bases: Mapping[str, Policy]) -> ActivePolicy:
    try:
        return load_policy(record.manifest, bases)
    except PolicyError:
        raise
    except Exception as error:
        text = "SchedulingPolicy %s: generation %d cannot be loaded."
        logger.exception(text, record.name, record.generation, extra=_fields(record))
        problem = Problem("spec", f"cannot be loaded: {type(error).__name__}: {error}")
        raise PolicyError(record.name, [problem]) from error


def _fields(record: PolicyRecord) -> dict[str, str]:
    """Returns the fields of a log line about this policy."""
    return {"kind": "SchedulingPolicy", "policy": record.name, "uid": record.uid}


def identity_of(manifest: Manifest) -> tuple[str, str, int]:
    """Returns name, UID and generation; "" and 0 where they are missing."""
    metadata = manifest.get("metadata")
    given = metadata if isinstance(metadata, Mapping) else {}
    name, uid, generation = (given.get(key) for key in ("name", "uid", "generation"))
    return (
        name if isinstance(name, str) else "",
        uid if isinstance(uid, str) else "",
        generation if isinstance(generation, int) and not isinstance(generation, bool) else 0,
    )
