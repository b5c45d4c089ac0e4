"""What would become of a policy if it were applied or deleted now, beside the policies of the cluster.

It is tried on a copy of the policy objects, so that every problem is the one that the status would have. What other
objects decide is a warning and no problem: a base may be applied after the policy that is based on it, and policies may
be deleted in any order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from berth.policy.bases import dependants
from berth.policy.conflicts import Conflicts
from berth.policy.linting import conflict_warnings, expression_traps
from berth.policy.policy_objects import Manifest, PolicyObjects, PolicyRecord, identity_of
from berth.policy.reading import is_object_name
from berth.policy.records import Mode, Problem
from berth.policy.wording import list_names

UNNAMED = "unnamed"  # stands for the name of a policy that has none yet


@dataclass(frozen=True, slots=True)
class PolicyReview:
    """The problems for which a policy would be refused, and what its author should know besides."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def review_policy(objects: PolicyObjects, conflicts: Conflicts, manifest: Manifest) -> PolicyReview:
    """Returns what would be said of the policy if it were applied. Changes nothing."""
    trial = objects.trial()
    named = _as_next_generation(manifest, objects)
    loaded = trial.observe(named)
    record = trial.records[loaded[0]]
    missing = [problem for problem in record.problems if _is_about_missing_base(problem, record)]
    problems = tuple(problem for problem in record.problems if problem not in missing)
    if problems:
        return PolicyReview(problems)
    warnings = [f"{problem} (until there is one, this policy is refused)" for problem in missing]
    warnings += _broken_dependants(loaded[1:], objects, trial)
    warnings += map(str, expression_traps(manifest.get("spec")))
    if record.last_good is not None and record.mode is Mode.ACTIVE and not missing:
        warnings += conflict_warnings(*conflicts.preview(record.last_good.policy))
    return PolicyReview((), tuple(warnings))


def review_removal(objects: PolicyObjects, name: str) -> PolicyReview:
    """Returns what would be said if the policy were deleted: which policies are based on it."""
    based = dependants(name, {other: record.base for other, record in objects.records.items()})
    if not based:
        return PolicyReview()
    verb, keep = ("is", "it keeps its") if len(based) == 1 else ("are", "they keep their")
    said = f"{list_names(based)} {verb} based on SchedulingPolicy {name}"
    return PolicyReview((), (f"{said}: {keep} last good generation until Berth restarts; give another base",))


def _as_next_generation(manifest: Manifest, objects: PolicyObjects) -> Manifest:
    """Returns the manifest as the newest version of its object, so that it is judged whatever it says itself."""
    given = manifest.get("metadata")
    metadata: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    name = identity_of(manifest)[0] or UNNAMED
    known = objects.records.get(name)
    newest = {"name": name, "generation": 1 if known is None else known.generation + 1}
    if known is not None:
        newest["uid"] = known.uid
    return {**manifest, "metadata": {**metadata, **newest}}


def _is_about_missing_base(problem: Problem, record: PolicyRecord) -> bool:
    named = record.base is not None and record.resolved_base is None and is_object_name(record.base)
    return named and problem.field == "spec.base"


def _broken_dependants(loaded: list[str], objects: PolicyObjects, trial: PolicyObjects) -> Iterator[str]:
    for name in loaded:
        problems = trial.records[name].problems
        if problems and not objects.records[name].problems:
            yield f"SchedulingPolicy {name}, which is based on this one, would be refused: {problems[0]}"
