"""The policy objects that there are: each with its latest manifest, and its last good generation ready to decide.

A page is loaded when its object has a new generation, and again when what it is based on has become another one. That
is compared by identity: a base that is loaded again with the same meaning stays what it was, and so does everything
that is based on it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.policy.bases import Bases, dependants, find_ring
from berth.policy.compile import ActivePolicy, load_policy
from berth.policy.features import ALL, Features
from berth.policy.fingerprint import fingerprint
from berth.policy.limits import NO_LIMITS, Limits
from berth.policy.records import Mode, Policy, PolicyError, Problem
from berth.policy.schema import base_of
from berth.policy.usage import NO_COUNTS, Counts

Manifest = Mapping[str, object]
Ground = ActivePolicy | tuple[str, ...] | None  # the base; or the ring that it is in; or none there, or none needed

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Page:
    """What is known of one policy object."""

    name: str
    uid: str
    generation: int = 0
    manifest: Manifest = field(default_factory=dict)
    base: str | None = None
    ground: Ground = None  # what `last_good` or `problems` were found on
    last_good: ActivePolicy | None = None
    fingerprint: str = ""  # of last_good
    problems: tuple[Problem, ...] = ()
    counts: Counts = NO_COUNTS  # as last reported
    sent: object = None  # the status as on the API server, or as it was taken to be written
    status: dict[str, object] | None = None  # the status as it should be

    @property
    def mode(self) -> Mode:
        """Of the last good generation; of one that was never good, what it says as far as that can be read."""
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


class Shelf:
    """`features`: what policies may rely on; `limits`: what they may not do."""

    def __init__(self, features: Features = ALL, limits: Limits = NO_LIMITS) -> None:
        self._features = features
        self._limits = limits
        self.pages: dict[str, Page] = {}

    def observe(self, manifest: Manifest) -> list[str]:
        """The object exists in this form: gives the names of the pages that were loaded, none for an echo."""
        name, uid, generation = identity_of(manifest)
        if not name:
            logger.warning("A SchedulingPolicy without metadata.name was reported; it is ignored.")
            return []
        page = self.pages.get(name)
        if page is None or page.uid != uid:
            page = self.pages[name] = Page(name, uid, sent=manifest.get("status"))
        elif generation and generation <= page.generation:
            return []
        page.generation = generation
        page.manifest = {key: value for key, value in manifest.items() if key != "status"}
        page.base = base_of(manifest)
        page.ground = self._ground(page, self._bases())
        self._load(page)
        return [name, *self._follow(name)]

    def remove(self, name: str) -> list[str]:
        """The object is gone; gives its name and those of the pages that were loaded."""
        del self.pages[name]
        return [name, *self._follow(name)]

    def _follow(self, name: str) -> list[str]:
        """Load what is based on the policy, as far as the base has become another one."""
        loaded = []
        bases = self._bases()
        for dependant in dependants(name, bases):
            page = self.pages[dependant]
            ground = self._ground(page, bases)
            if ground != page.ground:
                page.ground = ground
                self._load(page)
                loaded.append(dependant)
        return loaded

    def _ground(self, page: Page, bases: Bases) -> Ground:
        if page.base is None:
            return None
        base = self.pages.get(page.base)
        return find_ring(page.name, bases) or (base.last_good if base is not None else None)

    def _bases(self) -> Bases:
        return {name: page.base for name, page in self.pages.items()}

    def _load(self, page: Page) -> None:
        try:
            active = self._resolve(page)
        except PolicyError as error:
            page.problems = error.problems
            logger.warning("Generation %d is refused: %s", page.generation, error, extra=_fields(page))
            return
        page.problems = ()
        meaning = fingerprint(active.policy)
        known = page.last_good
        if known is None or known.policy.generation != page.generation or page.fingerprint != meaning:
            page.last_good, page.fingerprint = active, meaning
            text = "SchedulingPolicy %s: generation %d (%s) is valid."
            logger.info(text, page.name, page.generation, meaning, extra=_fields(page))

    def _resolve(self, page: Page) -> ActivePolicy:
        """Raises PolicyError, whatever goes wrong: one policy must never be in the way of the others."""
        refusals = self._features.refusals(page.manifest)
        if refusals:
            raise PolicyError(page.name, refusals)
        bases = {name: other.last_good.policy for name, other in self.pages.items() if other.last_good is not None}
        if not isinstance(page.ground, tuple):
            return self._allowed(page, self._features.limited(_load(page, bases)))
        bases.pop(page.ground[1], None)
        message = f"the bases form a ring, {' -> '.join(page.ground)}; base one of them on KubernetesDefault or Empty"
        try:
            return self._allowed(page, self._features.limited(_load(page, bases)))
        except PolicyError as error:
            others = [problem for problem in error.problems if problem.field != "spec.base"]
            raise PolicyError(page.name, [Problem("spec.base", message), *others]) from None

    def _allowed(self, page: Page, active: ActivePolicy) -> ActivePolicy:
        refusals = tuple(self._limits.refusals(active.policy, page.base))
        if refusals:
            raise PolicyError(page.name, refusals)
        return active


def _load(page: Page, bases: Mapping[str, Policy]) -> ActivePolicy:
    try:
        return load_policy(page.manifest, bases)
    except PolicyError:
        raise
    except Exception as error:
        text = "SchedulingPolicy %s: generation %d cannot be loaded."
        logger.exception(text, page.name, page.generation, extra=_fields(page))
        problem = Problem("spec", f"cannot be loaded: {type(error).__name__}: {error}")
        raise PolicyError(page.name, [problem]) from error


def _fields(page: Page) -> dict[str, str]:
    """Whom a line of the log is about."""
    return {"kind": "SchedulingPolicy", "policy": page.name, "uid": page.uid}


def identity_of(manifest: Manifest) -> tuple[str, str, int]:
    """Name, UID and generation, as far as they are there."""
    metadata = manifest.get("metadata")
    given = metadata if isinstance(metadata, Mapping) else {}
    name, uid, generation = (given.get(key) for key in ("name", "uid", "generation"))
    return (
        name if isinstance(name, str) else "",
        uid if isinstance(uid, str) else "",
        generation if isinstance(generation, int) and not isinstance(generation, bool) else 0,
    )
