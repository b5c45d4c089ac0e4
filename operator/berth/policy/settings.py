"""The fields of a policy besides its predicates and priorities: each is read and checked, or inherited from the base.

Objects are merged with the base's key by key (`backoff: {maxSeconds: 60}` keeps the initial time); all other fields
replace the base's.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from berth.engine.plugin import BadArgument
from berth.engine.plugins.common.default_spreading import read_defaults
from berth.policy.fields.entry_fields import PARAMETERS_MAX
from berth.policy.fields.setting_fields import (
    BACKOFF,
    CANDIDATES_MAX,
    CONSTRAINTS_MAX,
    DEFAULT_CONSTRAINTS,
    LONGEST_SECONDS,
    PREEMPTION,
    SHADOW,
    SHORTEST_SECONDS,
)
from berth.policy.reading import Note, read_args, read_choice, read_number, read_optional, read_whole
from berth.policy.records import BackoffSettings, Constraints, Mode, Policy, PreemptionSettings
from berth.policy.wording import show


def read_flag_or(spec: Mapping[str, object], key: str, inherited: bool, note: Note, where: str = "spec") -> bool:
    value = spec.get(key)
    if value is None or isinstance(value, bool):
        return inherited if value is None else value
    note(f"{where}.{key}", f"{show(value)} is not true or false")
    return inherited


def read_percentage(spec: Mapping[str, object], inherited: int, note: Note) -> int:
    given = read_whole(spec.get("percentageOfNodesToScore"), "spec.percentageOfNodesToScore", 0, 100, note)
    return inherited if given is None else given


def read_parameters(spec: Mapping[str, object], inherited: Mapping[str, object], note: Note) -> Mapping[str, object]:
    """Returns the parameters, merged with the base's key by key."""
    where = "spec.parameters"
    given = read_args(spec.get("parameters"), where, note)
    if given is None:
        return inherited
    merged = {**inherited, **given}
    if len(merged) > PARAMETERS_MAX:
        note(where, f"has {len(merged)} keys, may have {PARAMETERS_MAX}")
    return MappingProxyType(merged)


def read_preemption(spec: Mapping[str, object], inherited: PreemptionSettings, note: Note) -> PreemptionSettings:
    where = "spec.preemption"
    body = read_optional(spec.get("preemption"), where, PREEMPTION.names, note)
    percentage, absolute = f"{where}.minCandidateNodesPercentage", f"{where}.minCandidateNodesAbsolute"
    share = read_whole(body.get("minCandidateNodesPercentage"), percentage, 0, 100, note)
    count = read_whole(body.get("minCandidateNodesAbsolute"), absolute, 0, CANDIDATES_MAX, note)
    said = PreemptionSettings(
        read_flag_or(body, "enabled", inherited.enabled, note, where),
        inherited.percentage if share is None else share,
        inherited.absolute if count is None else count,
    )
    if not said.percentage and not said.absolute:
        note(percentage, "cannot be 0 together with minCandidateNodesAbsolute; write enabled: false to switch it off")
        return inherited
    return said


def read_backoff(spec: Mapping[str, object], inherited: BackoffSettings, note: Note) -> BackoffSettings:
    where = "spec.backoff"
    body = read_optional(spec.get("backoff"), where, BACKOFF.names, note)
    first, longest, flush = (
        read_number(value, path, SHORTEST_SECONDS, LONGEST_SECONDS, note)
        for value, path in (
            (body.get("initialSeconds"), f"{where}.initialSeconds"),
            (body.get("maxSeconds"), f"{where}.maxSeconds"),
            (spec.get("flushSeconds"), "spec.flushSeconds"),
        )
    )
    backoff = BackoffSettings(
        inherited.first_backoff_seconds if first is None else first,
        inherited.longest_backoff_seconds if longest is None else longest,
        inherited.flush_seconds if flush is None else flush,
    )
    initial, maximum = backoff.first_backoff_seconds, backoff.longest_backoff_seconds
    if initial > maximum:
        field = "initialSeconds" if first is not None else "maxSeconds"
        note(f"{where}.{field}", f"initialSeconds is {initial:g} and maxSeconds {maximum:g}: it cannot be the longer")
        return inherited
    return backoff


def read_bind_timeout(spec: Mapping[str, object], inherited: int | None, note: Note) -> int | None:
    given = read_whole(spec.get("bindTimeoutSeconds"), "spec.bindTimeoutSeconds", 0, LONGEST_SECONDS, note)
    return inherited if given is None else given


def read_spread_defaults(
    spec: Mapping[str, object], inherited: Mapping[str, object] | None, note: Note
) -> Mapping[str, object] | None:
    """Returns the arguments of PodTopologySpread."""
    where = "spec.defaultConstraints"
    if spec.get("defaultConstraints") is None:
        return inherited
    given = read_optional(spec["defaultConstraints"], where, DEFAULT_CONSTRAINTS.names, note)
    body = read_args(given, where, note) or {}
    if body.get("type") is None:
        note(f"{where}.type", f"is required: one of {', '.join(Constraints)}")
        return inherited
    kind = read_choice(body["type"], f"{where}.type", Constraints, note, Constraints.SYSTEM)
    listed = body.get("constraints")
    if problem := _wrong_list(kind, listed):
        note(f"{where}.constraints", problem)
        return inherited
    if kind is Constraints.SYSTEM:
        return MappingProxyType({"defaultingType": "System"})
    args = MappingProxyType({"defaultingType": "List", "defaultConstraints": listed or []})
    try:
        read_defaults(args)
    except BadArgument as error:
        note(f"{where}.{error.field.replace('defaultConstraints', 'constraints', 1)}", error.problem)
        return inherited
    return args


def _wrong_list(kind: Constraints, listed: object) -> str:
    if listed is not None and not isinstance(listed, list):
        return f"{show(listed)} is not a list"
    if isinstance(listed, list) and len(listed) > CONSTRAINTS_MAX:
        return f"has {len(listed)} constraints, may have {CONSTRAINTS_MAX}"
    if kind is Constraints.LIST and not listed:
        return "is required with type: List; write type: None to spread no pod that does not ask for it"
    if kind is not Constraints.LIST and listed:
        return f"goes with type: List only, not with {kind}"
    return ""


def read_shadow(spec: Mapping[str, object], mode: Mode, inherited: int, note: Note) -> int:
    where = "spec.shadow"
    if spec.get("shadow") is None:
        return inherited
    body = read_optional(spec["shadow"], where, SHADOW.names, note)
    if mode is not Mode.SHADOW:
        note(where, f"goes with mode: Shadow only, not with {mode}: leave it out")
    given = read_whole(body.get("samplePercent"), f"{where}.samplePercent", 1, 100, note)
    return inherited if given is None else given


def read_settings(spec: Mapping[str, object], base: Policy, mode: Mode, note: Note) -> Policy:
    """Returns the base with the manifest's fields, except for predicates, priorities and extenders."""
    return replace(
        base,
        mode=mode,
        parameters=read_parameters(spec, base.parameters, note),
        preemption=read_preemption(spec, base.preemption, note),
        backoff=read_backoff(spec, base.backoff, note),
        tie_break=read_choice(spec.get("tieBreak"), "spec.tieBreak", type(base.tie_break), note, base.tie_break),
        node_percentage=read_percentage(spec, base.node_percentage, note),
        check_all=read_flag_or(spec, "alwaysCheckAllPredicates", base.check_all, note),
        annotates=read_flag_or(spec, "annotatePods", base.annotates, note),
        shadow_percentage=read_shadow(spec, mode, base.shadow_percentage, note),
        spread_defaults=read_spread_defaults(spec, base.spread_defaults, note),
        bind_timeout_seconds=read_bind_timeout(spec, base.bind_timeout_seconds, note),
    )
