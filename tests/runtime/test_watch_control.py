"""How watching ends and begins anew, and what is taken meanwhile."""

import asyncio

from berth.runtime.watch_control import WatchControl


def takes_events(control: WatchControl) -> bool:
    return control.takes_events


async def test_watching_ends_at_once_where_nobody_watches() -> None:
    control = WatchControl()
    await control.end_watching()
    assert not takes_events(control)
    assert not control.restart_wanted.is_set()


async def test_the_end_of_the_watches_is_waited_for_and_the_next_begin_when_all_is_ready() -> None:
    control = WatchControl()
    steps: list[str] = []

    async def watch() -> None:
        with control.watched():
            await control.restart_wanted.wait()
            steps.append("watches have ended")
            await control.watch_ended()
            steps.append("watches begin anew")

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await control.end_watching()
    steps.append("starts over")
    assert not takes_events(control)
    control.resume()
    await watching
    assert steps == ["watches have ended", "starts over", "watches begin anew"]
    assert takes_events(control)
    assert not control.restart_wanted.is_set()


async def test_a_watcher_that_has_gone_is_not_waited_for() -> None:
    control = WatchControl()
    with control.watched():
        pass
    await control.end_watching()
    assert not control.restart_wanted.is_set()
