"""The log of changes says what happened since a mark, or that it does not know."""

from berth.engine.events import Change, Event
from berth.scheduler.queue.change_log import ChangeLog


def changes(number: int) -> list[Change]:
    return [Change(frozenset({Event.NODE_ADDED}), node=f"n{i}") for i in range(number)]


def test_the_changes_since_a_mark_are_told_in_order() -> None:
    log = ChangeLog(3)
    first, second, third = changes(3)
    log.note(first)
    mark = log.mark
    log.note(second)
    log.note(third)
    assert log.since(mark) == [second, third]
    assert log.since(log.mark) == []


def test_where_some_of_it_is_not_kept_any_more_nothing_is_told() -> None:
    log = ChangeLog(2)
    mark = log.mark
    for change in changes(3):
        log.note(change)
    assert log.since(mark) is None
