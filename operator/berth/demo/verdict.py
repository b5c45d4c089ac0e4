"""The result of the demo: the numbers of both acts side by side, and everything that did not hold.

The demo is a test of its own: what it shows is checked before it says that all is well. A result is a function of the
plan and of what was seen; it is plain ASCII text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from berth.demo.closing import ClosingText
from berth.demo.picture import DrawnPod, Fullness, Picture
from berth.demo.scenario import GIANT, NAMESPACE, Plan

NAMED_PODS = 3
PACKED = 1.5
"""So many times more unequally full than after spreading, at least. Even three nodes are when they are packed."""


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """What the story noted down on its way; a field is None if the story did not come that far."""

    before: Fullness | None = None
    after: Fullness | None = None
    change_seconds: float | None = None
    """From the patch to the status that says the new generation is in force."""
    trouble: str = ""
    """What ended the story early."""


def problems_of(plan: Plan, picture: Picture, record: DemoRecord) -> list[str]:
    """Returns a sentence for everything that did not hold; empty if all did."""
    return list(_problems(plan, picture, record))


def _problems(plan: Plan, picture: Picture, record: DemoRecord) -> Iterator[str]:
    if record.trouble:
        yield record.trouble
    waiting = picture.waiting()
    others = [pod for pod in waiting if not _is_giant(pod)]
    if others:
        named = "; ".join(f"{pod.key} ({pod.refusal or 'not tried yet'})" for pod in others[:NAMED_PODS])
        yield f"{len(others)} pods that fit have no node: {named}"
    if picture.placed < plan.pods:
        yield f"{picture.placed} of {plan.pods} pods were placed"
    if picture.failed:
        yield f"{len(picture.failed)} pods failed: {'; '.join(picture.failed[:NAMED_PODS])}"
    if picture.overfull:
        yield f"nodes were asked for more than they have: {', '.join(sorted(picture.overfull)[:NAMED_PODS])}"
    if not any(_is_giant(pod) and pod.refusal for pod in waiting):
        yield f"the pod {NAMESPACE}/{GIANT} is not pending with a reason, though it fits nowhere"
    yield from _problems_of_change(record)


def _problems_of_change(record: DemoRecord) -> Iterator[str]:
    if record.change_seconds is None:
        yield "the changed policy never was in force"
    if record.before is None or record.after is None:
        return
    before, after = record.before, record.after
    if after.in_use > before.in_use or after.deviation_percent < PACKED * before.deviation_percent:
        yield (
            f"packing did not pack: {before.in_use} nodes in use before, {after.in_use} after; their cpu deviated by "
            f"{before.deviation_percent:.0f} % from the mean before, by {after.deviation_percent:.0f} % after"
        )


def _is_giant(pod: DrawnPod) -> bool:
    return pod.key == f"{NAMESPACE}/{GIANT}"


def closing_text(
    plan: Plan, picture: Picture, record: DemoRecord, now_seconds: float, seed: int, problems: Sequence[str]
) -> ClosingText:
    """Returns what the demo ends with, without the next steps."""
    busy = picture.busy_seconds()
    mean = picture.placed / busy if busy else 0.0
    changed = record.change_seconds
    return ClosingText(
        f"{picture.placed} of {plan.pods} pods placed on {len(plan.machines)} nodes in {now_seconds:.1f} s "
        f"(seed {seed}): {mean:.0f} pods/s while there was work, {picture.peak_rate()} in the best second",
        list(_table(picture, record)),
        [f"pending: {pod.key}: {pod.refusal or 'not tried yet'}" for pod in picture.waiting()[:NAMED_PODS]],
        "" if changed is None else f"policy: from spreading to packing in {changed:.1f} s, nothing restarted",
        [f"FAILED: {problem}" for problem in problems],
    )


def _table(picture: Picture, record: DemoRecord) -> Iterator[str]:
    generations = sorted(generation for generation in picture.tallies if generation)
    first, second = (*generations, 0, 0)[:2]
    yield _row("", "spreading", "packing")
    yield _row("pods placed", *(str(picture.tallies[g].pods) if g else "-" for g in (first, second)))
    yield _row("on so many nodes", *(str(len(picture.tallies[g].nodes)) if g else "-" for g in (first, second)))
    fullnesses = (record.before, record.after)
    yield _row("nodes in use at the end", *(str(fullness.in_use) if fullness else "-" for fullness in fullnesses))
    yield _row("empty nodes at the end", *(str(fullness.empty) if fullness else "-" for fullness in fullnesses))
    shares = (f"{fullness.in_use_percent:.0f} %" if fullness else "-" for fullness in fullnesses)
    yield _row("cpu of nodes in use", *shares)


def _row(name: str, *values: str) -> str:
    return f"  {name:<24}" + "".join(f"{value:>12}" for value in values)
