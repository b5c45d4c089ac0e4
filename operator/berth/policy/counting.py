"""Counts as a status shows them, and back again: how a policy goes on counting after a restart.

    placed, pending, preempted    numbers of pods
    lastDecisionTime
    errors                        [{source, count, message, lastTime}]
    shadow                        {judged, same, different, unplaced, gained, skipped,
                                   examples: [{pod, active, shadow, time, message}]}; in Shadow mode only

A field without a value is None: a merge patch removes it. A status is not trusted: invalid fields are ignored.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from berth.policy.usage import EXAMPLES_MAX, FAILURES_MAX, Counts, RecordedFailure, ShadowExample, ShadowOutcome

JUDGED = tuple(outcome for outcome in ShadowOutcome if outcome is not ShadowOutcome.SKIPPED)


def format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: object) -> datetime | None:
    """A time as Kubernetes writes it, or None for anything else."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


# --- there


def describe_counts(counts: Counts, *, is_shadow: bool) -> dict[str, object]:
    """Returns the fields of a status that are about use."""
    return {
        "placed": counts.placed,
        "pending": counts.pending,
        "preempted": counts.preempted,
        "lastDecisionTime": format_time(counts.last_decision) if counts.last_decision is not None else None,
        "errors": [_describe_failure(failure) for failure in counts.failures] or None,
        "shadow": _describe_shadow(counts) if is_shadow else None,
    }


def _describe_failure(failure: RecordedFailure) -> dict[str, object]:
    return {
        "source": failure.source,
        "count": failure.count,
        "message": failure.message,
        "lastTime": format_time(failure.last),
    }


def _describe_shadow(counts: Counts) -> dict[str, object]:
    return {
        "judged": sum(counts.outcomes.get(outcome, 0) for outcome in JUDGED),
        **{outcome.value: counts.outcomes.get(outcome, 0) for outcome in ShadowOutcome},
        "examples": [
            {
                "pod": example.pod,
                "active": example.active,
                "shadow": example.shadow,
                "time": format_time(example.time),
                "message": example.message,
            }
            for example in counts.examples
        ],
    }


# --- and back


def read_counts(status: object) -> Counts:
    """Returns the counts in a status."""
    body = status if isinstance(status, Mapping) else {}
    shadow = body.get("shadow")
    outcomes = shadow if isinstance(shadow, Mapping) else {}
    return Counts(
        placed=_number(body.get("placed")),
        pending=_number(body.get("pending")),
        preempted=_number(body.get("preempted")),
        last_decision=parse_time(body.get("lastDecisionTime")),
        failures=tuple(_failures(body.get("errors")))[-FAILURES_MAX:],
        outcomes={outcome: _number(outcomes.get(outcome.value)) for outcome in ShadowOutcome},
        examples=tuple(_examples(outcomes.get("examples")))[-EXAMPLES_MAX:],
    )


def _failures(listed: object) -> Iterator[RecordedFailure]:
    for entry in _entries(listed):
        source, last = entry.get("source"), parse_time(entry.get("lastTime"))
        if isinstance(source, str) and source and last is not None:
            yield RecordedFailure(source, _number(entry.get("count")), _text(entry.get("message")), last)


def _examples(listed: object) -> Iterator[ShadowExample]:
    for entry in _entries(listed):
        time = parse_time(entry.get("time"))
        if time is not None:
            pod, active, shadow, message = (_text(entry.get(key)) for key in ("pod", "active", "shadow", "message"))
            yield ShadowExample(pod, active, shadow, time, message)


def _entries(listed: object) -> Iterator[Mapping[str, object]]:
    for entry in listed if isinstance(listed, list | tuple) else ():
        if isinstance(entry, Mapping):
            yield entry


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
