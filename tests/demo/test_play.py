"""The story, in an environment without a cluster."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from berth.demo.picture import Fullness, Picture
from berth.demo.play import Interrupted, Play
from berth.demo.scenario import PACKING, make_plan
from berth.demo.verdict import DemoRecord, closing_text, problems_of
from demo.toys import REFUSAL, ToyClock, ToyEnvironment, ToyView

PLAN = make_plan(6, 60, 0)


def make_play(
    environment: ToyEnvironment, view: ToyView | None = None, wanted: Callable[[], bool] = lambda: True
) -> Play:
    return Play(PLAN, environment, view or ToyView(), ToyClock(), wanted)


async def perform(environment: ToyEnvironment) -> Play:
    play = make_play(environment)
    await play.perform()
    return play


def problems(play: Play) -> list[str]:
    return problems_of(PLAN, play.picture, play.record)


async def test_a_story_in_which_all_goes_well_has_no_problems() -> None:
    environment = ToyEnvironment()
    play = await perform(environment)
    assert problems(play) == []
    assert environment.patches == [PACKING]
    assert play.picture.placed == PLAN.pods


async def test_the_story_ends_within_a_minute() -> None:
    play = await perform(ToyEnvironment())
    assert 15 < play.now_seconds < 40


async def test_news_are_told_in_their_order() -> None:
    view = ToyView()
    await make_play(ToyEnvironment(), view).perform()
    told = "\n".join(view.headline)
    order = ["starting a cluster", "operator is there", "front-v1", f"says why: {REFUSAL}", "now it packs", "front-v2"]
    assert [told.index(words) for words in order] == sorted(told.index(words) for words in order)
    assert told.count("says why") == 1


async def test_the_view_sees_ten_scenes_a_second() -> None:
    view = ToyView()
    play = make_play(ToyEnvironment(), view)
    await play.perform()
    assert view.scenes == pytest.approx(10 * play.now_seconds, rel=0.2)


async def test_a_pod_that_fits_and_has_no_node_is_a_failure_that_names_it() -> None:
    play = await perform(ToyEnvironment(places=False))
    found = "\n".join(problems(play))
    assert "did not come to rest" in found
    assert "26 pods that fit have no node: demo/cart-v1-0 (not tried yet)" in found
    assert "0 of 60 pods were placed" in found


async def test_a_policy_that_is_not_taken_up_is_a_failure() -> None:
    play = await perform(ToyEnvironment(obeys=False))
    assert "the operator did not take up the changed policy within 30 s" in problems(play)
    assert "the changed policy never was in force" in problems(play)


@pytest.mark.parametrize(("in_use", "deviation"), [(6, 14.0), (7, 40.0)])
async def test_packing_that_does_not_pack_is_a_failure(in_use: int, deviation: float) -> None:
    play = await perform(ToyEnvironment())
    before = Fullness(9, 3, 30.0, 45.0, 10.0, ())
    after = Fullness(9, 9 - in_use, 30.0, 45.0, deviation, ())
    (problem,) = problems_of(PLAN, play.picture, replace(play.record, before=before, after=after))
    assert problem.startswith(f"packing did not pack: 6 nodes in use before, {in_use} after; ")


async def test_a_stage_that_breaks_down_ends_the_story_with_its_words() -> None:
    environment = ToyEnvironment()
    environment.broken = "the operator ended with exit code 1"
    play = await perform(environment)
    assert problems(play)[0] == "the operator ended with exit code 1"


async def test_who_does_not_want_to_see_more_is_not_shown_more() -> None:
    view = ToyView()
    play = make_play(ToyEnvironment(), view, wanted=lambda: view.scenes < 20)
    with pytest.raises(Interrupted):
        await play.perform()
    assert view.scenes == 20


async def test_the_summary_sets_both_acts_side_by_side_and_says_what_is_pending() -> None:
    play = await perform(ToyEnvironment())
    text = "\n".join(closing_text(PLAN, play.picture, play.record, play.now_seconds, 7, []).whole())
    assert text.isascii()
    assert "60 of 60 pods placed on 6 nodes in" in text
    assert "(seed 7)" in text
    assert f"pending: demo/giant: {REFUSAL}" in text
    rows = {line[2:26].strip(): line[26:].split() for line in text.splitlines() if line.startswith("  ")}
    assert rows["pods placed"] == ["30", "30"]
    assert rows["nodes in use at the end"][0] == "6"
    assert int(rows["empty nodes at the end"][1]) > int(rows["empty nodes at the end"][0])


def test_a_story_that_never_began_can_still_be_summed_up() -> None:
    picture = Picture()
    record = DemoRecord(trouble="the API server cannot be started")
    assert "0 of 60 pods placed" in closing_text(PLAN, picture, record, 0.1, 0, []).result
    assert problems_of(PLAN, picture, record)[0] == record.trouble
