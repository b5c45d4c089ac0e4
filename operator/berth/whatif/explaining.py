"""Why pods stay pending, in more than a sentence: near misses, whether they could ever fit, and advice that was tried.

The first pod of each reason is explained, on the cluster as it is when all pods have been placed. Advice is tried on
every node, which takes long on a large cluster: of hundreds of reasons those of most pods are explained.
"""

from collections.abc import Callable
from typing import Final

from berth.explain import Explainer, Subject, finish
from berth.whatif.entries import Entry
from berth.whatif.result import Reason
from berth.whatif.workloads import Workload
from berth.whatif.world import World

MOST_EXPLAINED: Final = 20


def pending_reasons(world: World, tell: Callable[[str], None]) -> dict[Workload, list[Reason]]:
    """Returns why pods stay pending, by workload. The reasons of most pods come first, and those are explained."""
    pending: dict[tuple[Workload, str], list[Entry]] = {}
    for entry in world.placer.entries:
        if entry.is_pending:
            pending.setdefault((entry.workload, entry.message), []).append(entry)
    explainer = Explainer(world.state, world.deciders)
    found: dict[Workload, list[Reason]] = {}
    for place, (workload, message) in enumerate(sorted(pending, key=lambda each: -len(pending[each]))):
        entries, explanation = pending[workload, message], None
        if place < MOST_EXPLAINED:
            tell(f"explaining why pods of {workload} are pending")
            explanation = finish(explainer.explain(Subject(entries[0].pod)))
        found.setdefault(workload, []).append(Reason(message, [entry.pod.name for entry in entries], explanation))
    return found
