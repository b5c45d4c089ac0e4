"""From a SchedulingPolicy manifest, as an API server or a file gives it, to a resolved `Policy`.

The way: every field is read by a function that notes what is wrong and goes on, so that one pass finds every problem
of the manifest, each with its path (`spec.priorities[2].weight`). Then the entries (`entries`) are laid over the
default profile (`resolution`).

Stricter than the CRD on purpose: the API server prunes fields that it does not know, here they are typos to report,
with the field that was probably meant. The bounds are those of the CRD, and a test holds the two together.

Plugin names are judged here; arguments are judged by the plugins themselves (`compile`).
"""

from collections.abc import Mapping

from berth.engine.pipeline import TieBreak
from berth.policy.entries import read_entries
from berth.policy.reading import Note, read_mapping, refuse_unknown
from berth.policy.records import Policy, PolicyError, Problem
from berth.policy.resolution import resolve_predicates, resolve_priorities
from berth.policy.wording import show

API_VERSION = "berth.dev/v1alpha1"
KIND = "SchedulingPolicy"
SCHEDULER_NAME_MAX_LENGTH = 253
SPEC_FIELDS = ("schedulerName", "predicates", "predicateOrder", "priorities", "tieBreak")


def parse_policy(manifest: Mapping[str, object]) -> Policy:
    """The policy that the manifest describes. Raises `PolicyError` with every problem of its structure and names."""
    policy, problems = examine(manifest)
    if problems:
        raise PolicyError(policy.name, problems)
    return policy


def examine(manifest: Mapping[str, object]) -> tuple[Policy, tuple[Problem, ...]]:
    """What can be made of the manifest, and everything that is wrong with it: a usable policy only without problems."""
    problems: list[Problem] = []

    def note(where: str, message: str) -> None:
        problems.append(Problem(where, message))

    _check_type(manifest, note)
    metadata = read_mapping(manifest.get("metadata"), "metadata", note)
    spec = read_mapping(manifest.get("spec"), "spec", note)
    refuse_unknown(spec, SPEC_FIELDS, "spec", note)
    policy = Policy(
        name=_name(metadata, note),
        uid=_text(metadata.get("uid")),
        generation=_generation(metadata.get("generation")),
        scheduler_name=_scheduler_name(spec, note),
        predicates=resolve_predicates(read_entries(spec, "filter", note), spec.get("predicateOrder"), note),
        priorities=resolve_priorities(read_entries(spec, "score", note), note),
        tie_break=_tie_break(spec, note),
    )
    return policy, tuple(problems)


# --- the head of the manifest


def _check_type(manifest: Mapping[str, object], note: Note) -> None:
    # A watch event may leave the type out; where it is given it has to be ours.
    for key, ours in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = manifest.get(key)
        if given is not None and given != ours:
            note(key, f"{show(given)} is not {ours}")


def _name(metadata: Mapping[str, object], note: Note) -> str:
    name = metadata.get("name")
    if isinstance(name, str) and name:
        return name
    note("metadata.name", "is required: the policy's name" if name is None else f"{show(name)} is not a name")
    return ""


def _generation(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _scheduler_name(spec: Mapping[str, object], note: Note) -> str:
    value, where = spec.get("schedulerName"), "spec.schedulerName"
    if value is None:
        note(where, "is required: the name that pods put into their spec.schedulerName, for example berth")
    elif not isinstance(value, str) or not value:
        note(where, f"{show(value)} is not a scheduler name")
    elif len(value) > SCHEDULER_NAME_MAX_LENGTH:
        note(where, f"has {len(value)} characters, may have {SCHEDULER_NAME_MAX_LENGTH}")
    else:
        return value
    return ""


def _tie_break(spec: Mapping[str, object], note: Note) -> TieBreak:
    value = spec.get("tieBreak")
    if value is None:
        return TieBreak.RANDOM
    for choice in TieBreak:
        if value == choice.value:
            return choice
    note("spec.tieBreak", f"{show(value)} is not one of {', '.join(choice.value for choice in TieBreak)}")
    return TieBreak.RANDOM


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
