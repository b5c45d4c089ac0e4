"""Random pods that fit nowhere: what is said of them is true, by the engine's own judgement.

The seed is another one in every run. It is printed, and `--pods-seed` repeats it.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from berth.engine.plugin import Query
from berth.engine.state.state import State
from berth.explain import finish
from berth.explain.advice.edits import Edit, in_place
from berth.explain.advice.priorities import raised
from berth.explain.advice.searching import tried_edits
from berth.explain.judgement import Judgement
from berth.explain.near_misses import reasons_of
from berth.explain.prospects import prospect_of
from berth.explain.records import Advice, Outlook
from berth.model import Pod
from engine.picture import picture
from explain.worlds import Case, infeasible


@pytest.fixture(scope="module")
def cases(pods_seed: str, pods: int) -> list[Case]:
    print(f"\npytest tests/explain --pods {pods} --pods-seed {pods_seed}")
    return list(infeasible(pods_seed, pods))


def fits(case: Case, pod: Pod, state: State) -> list[str]:
    """The nodes that fit, by a new pipeline of the same policy's plugins: nothing is cached in it."""
    pipeline = type(case.active.pipeline)(case.active.pipeline.filters, case.active.pipeline.scores)
    survey = pipeline.survey(Query(pod, state.table), state)
    rows = Judgement(pod, pipeline, state).rows
    return [state.table.name(int(row)) for row in rows[survey.fits]]


def test_the_first_advice_makes_the_pod_fit_and_none_is_wrong(cases: list[Case]) -> None:
    advised = 0
    for case in cases:
        found = finish(tried_edits(case.pod, case.active.pipeline, case.cluster().state))
        for edit, advice in found:
            _check(case, edit, advice)
        advised += bool(found)
    print(f"{advised} of {len(cases)} pods got advice")
    assert advised >= 0.95 * len(cases), f"{advised} of {len(cases)} pods got advice"


def _check(case: Case, edit: Edit, advice: Advice) -> None:
    state = case.cluster().state
    with in_place(edit, state) as pod:
        there = fits(case, pod, state)
    assert advice.node in there, (case.id, advice)
    if edit.node is None:
        assert len(there) == advice.nodes, (case.id, advice)


def test_the_pod_fits_with_the_priority_that_is_advised_once_the_victims_are_gone(cases: list[Case]) -> None:
    for case in cases:
        state = case.cluster().state
        advice = finish(raised(case.pod, case.active.pipeline, case.active.preemption, state))
        if advice is None:
            continue
        after = {change.field: change.after for change in advice.changes}
        pod = replace(case.pod, preemption_policy="PreemptLowerPriority", nominated_node_name="")
        pod = replace(pod, priority=int(after.get("spec.priority", pod.priority)))
        for victim in [other for other in _placed(state) if other.key in advice.victims]:
            assert victim.priority < pod.priority
            state.table.remove_pod(victim.uid)
        assert advice.node in fits(case, pod, state), (case.id, advice)


def _placed(state: State) -> Iterator[Pod]:
    for name in state.table.names():
        yield from list(state.table.pods_on(name).values())


def test_never_is_true_on_the_cluster_without_pods(cases: list[Case]) -> None:
    never = 0
    for case in cases:
        state = case.cluster().state
        prospect = prospect_of(Judgement(case.pod, case.active.pipeline, state))
        examples = prospect.examples
        for other in list(_placed(state)):
            state.table.remove_pod(other.uid)
        for nominated in [uid for pods in state.nominated.values() for uid in pods]:
            state.withdraw(nominated)
        there = fits(case, case.pod, state)
        if prospect.outlook is Outlook.NEVER:
            never += 1
            assert not there, (case.id, prospect)
        assert prospect.outlook is not Outlook.FITS
        assert not (prospect.outlook is Outlook.NEVER and examples)
    print(f"{never} of {len(cases)} pods fit never")
    assert never, "no pod was said to fit never"


def test_a_node_that_could_take_the_pod_does_so_without_its_pods(cases: list[Case]) -> None:
    named = 0
    for case in cases:
        state = case.cluster().state
        prospect = prospect_of(Judgement(case.pod, case.active.pipeline, state))
        for name in prospect.examples:
            named += 1
            there = list(state.table.pods_on(name).values())
            assert case.active.pipeline.fits_without(case.pod, state, name, there), (case.id, prospect)
    assert named


def test_the_counts_are_those_of_the_message(cases: list[Case]) -> None:
    for case in cases:
        judgement = Judgement(case.pod, case.active.pipeline, case.cluster().state)
        survey = judgement.survey
        assert survey is not None
        if survey.stopped_by is not None:
            continue
        counts: dict[str, int] = {}
        for reason in reasons_of(judgement):
            counts[reason.message] = counts.get(reason.message, 0) + reason.nodes
        said = ", ".join(sorted(f"{count} {message}" for message, count in counts.items()))
        assert judgement.diagnosis.message == f"0/{judgement.nodes} nodes are available: {said}.", case.id


def test_explaining_leaves_the_state_as_it_was(cases: list[Case]) -> None:
    for case in cases[:30]:
        state = case.cluster().state
        keys = sorted({key for node in state.table.nodes() for key in node.labels})
        before = picture(state, [], keys, [case.pod])
        finish(tried_edits(case.pod, case.active.pipeline, state))
        finish(raised(case.pod, case.active.pipeline, case.active.preemption, state))
        prospect_of(Judgement(case.pod, case.active.pipeline, state))
        assert picture(state, [], keys, [case.pod]) == before, case.id
