"""From a SchedulingPolicy manifest, as an API server or a file gives it, to a resolved `Policy`.

Every field is read by a function that notes problems and goes on, so that one pass finds every problem of the manifest,
each with its path (`spec.priorities[2].weight`). The result is merged with the base: entries (`entries`, `resolution`),
extenders (`extenders`) and the other fields (`settings`). The base is the default profile of Kubernetes, nothing at
all, or another policy that was resolved before.

Stricter than the CRD on purpose: the API server prunes fields that it does not know, here they are typos to report,
with the field that was probably meant. Names and bounds are those of the CRD: both have them from `fields`.

Plugin names are checked here; arguments are checked by the plugins themselves (`compile`).
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from berth.policy.defaults import BUILT_IN, KUBERNETES_DEFAULT, OWN_BASES
from berth.policy.entries import named_in, read_entries
from berth.policy.extenders import read_extenders
from berth.policy.fields.entry_fields import EXPRESSIONS_MAX
from berth.policy.fields.spec_fields import GROUP, KIND, SCHEDULER_NAME_MAX_LENGTH, SPEC, VERSION
from berth.policy.reading import Note, did_you_mean, is_object_name, read_choice, read_mapping, refuse_unknown
from berth.policy.records import Extender, Mode, Policy, PolicyError, Problem
from berth.policy.resolution import put_first, read_order, resolve_predicates, resolve_priorities
from berth.policy.selecting import read_selector
from berth.policy.settings import read_settings
from berth.policy.wording import show

API_VERSION = f"{GROUP}/{VERSION}"
NO_BASES: Mapping[str, Policy] = MappingProxyType({})
SPEC_FIELDS = SPEC.names


def parse_policy(manifest: Mapping[str, object], bases: Mapping[str, Policy] = NO_BASES) -> Policy:
    """Returns the policy of a manifest. Raises `PolicyError` with every problem of its structure and names."""
    policy, problems = examine(manifest, bases)
    if problems:
        raise PolicyError(policy.name, problems)
    return policy


def base_of(manifest: Mapping[str, object]) -> str | None:
    """Returns the name of the policy that the manifest is based on; None for one of Berth's own bases."""
    spec = manifest.get("spec")
    base = spec.get("base") if isinstance(spec, Mapping) else None
    return base if isinstance(base, str) and base and base not in OWN_BASES else None


def examine(
    manifest: Mapping[str, object], bases: Mapping[str, Policy] = NO_BASES
) -> tuple[Policy, tuple[Problem, ...]]:
    """Returns the policy as far as it can be read, and every problem; it is usable only if there are no problems.

    `bases` are the policies, by name, that it may be based on.
    """
    problems: list[Problem] = []

    def note(where: str, message: str) -> None:
        problems.append(Problem(where, message))

    _check_type(manifest, note)
    metadata = read_mapping(manifest.get("metadata"), "metadata", note)
    spec = read_mapping(manifest.get("spec"), "spec", note)
    refuse_unknown(spec, SPEC_FIELDS, "spec", note)
    name = _name(metadata, note)
    scheduler_name = _scheduler_name(spec, note)
    base = _base(spec.get("base"), name, bases, note)
    policy = replace(
        read_settings(
            spec, base or BUILT_IN, read_choice(spec.get("mode"), "spec.mode", Mode, note, Mode.ACTIVE), note
        ),
        name=name,
        uid=_text(metadata.get("uid")),
        generation=_generation(metadata.get("generation")),
        scheduler_name=scheduler_name,
        namespace_selector=read_selector(spec.get("namespaceSelector"), "spec.namespaceSelector", note),
        pod_selector=read_selector(spec.get("podSelector"), "spec.podSelector", note),
        extenders=_extenders(spec, base or BUILT_IN, note),
    )
    policy = _with_entries(policy, spec, base, note)
    _limit_expressions(policy, note)
    return policy, tuple(problems)


# --- what is laid over the base


def _base(value: object, name: str, bases: Mapping[str, Policy], note: Note) -> Policy | None:
    """Returns the base; None if there is no such policy."""
    where = "spec.base"
    if value is None:
        return OWN_BASES[KUBERNETES_DEFAULT]
    own = ", ".join(OWN_BASES)
    if isinstance(value, str) and value in OWN_BASES:
        return OWN_BASES[value]
    if not isinstance(value, str) or not is_object_name(value):
        hint = did_you_mean(value, (*OWN_BASES, *bases)) if isinstance(value, str) else ""
        note(where, f"{show(value)} is not {own} or the name of a policy{hint}")
    elif value == name:
        note(where, "a policy cannot be based on itself")
    elif value not in bases:
        hint = did_you_mean(value, (*OWN_BASES, *bases)) or f"; apply or fix it, or write one of {own}"
        note(where, f"there is no valid SchedulingPolicy {value}{hint}")
    else:
        return bases[value]
    return None


def _with_entries(policy: Policy, spec: Mapping[str, object], base: Policy | None, note: Note) -> Policy:
    """Entries may change those of a missing base by names that are unknown here: such names are not checked then."""
    under = base or BUILT_IN
    filters = read_entries(spec, "filter", named_in(base.predicates) if base else None, note)
    scores = read_entries(spec, "score", named_in(base.priorities) if base else None, note)
    predicates = resolve_predicates(under, filters, note)
    order = read_order(spec.get("predicateOrder"), under, predicates, note) if base else ()
    return replace(
        policy,
        predicates=put_first(order, predicates),
        predicate_order=order,
        priorities=resolve_priorities(under, scores, note),
    )


def _extenders(spec: Mapping[str, object], base: Policy, note: Note) -> tuple[Extender, ...]:
    """Returns the manifest's, or else the base's."""
    if spec.get("extenders") is None:
        return tuple(replace(extender, origin="") for extender in base.extenders)
    return read_extenders(spec["extenders"], note)


def _limit_expressions(policy: Policy, note: Note) -> None:
    expressions = [
        *(entry.expression for entry in policy.predicates),
        *(entry.expression for entry in policy.priorities),
    ]
    count = sum(map(bool, expressions))
    if count > EXPRESSIONS_MAX:
        note("spec", f"has {count} expressions, with those of its base, and may have {EXPRESSIONS_MAX}")


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


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
