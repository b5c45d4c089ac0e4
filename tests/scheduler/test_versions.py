"""What the register believes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.scheduler.cache.versions import REMOVED_REMEMBERED, Register
from berth.scheduler.object_events import Identity, identify


def body(uid: str = "", version: object = None, name: str = "web") -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "default", "name": name}
    if uid:
        metadata["uid"] = uid
    if version is not None:
        metadata["resourceVersion"] = version
    return {"metadata": metadata}


def identity(body: dict[str, Any]) -> Identity:
    found = identify(body)
    assert found is not None
    return found


def test_versions_are_compared_as_numbers_and_not_as_text() -> None:
    register = Register()
    register.record(identity(body("u", "9")))
    assert register.is_news(identity(body("u", "10")))
    assert not register.is_news(identity(body("u", "8")))
    assert register.is_news(identity(body("u", "9")))


def test_a_version_that_cannot_be_compared_is_believed() -> None:
    register = Register()
    register.record(identity(body("u", "9")))
    assert register.is_news(identity(body("u", "opaque")))
    assert register.is_news(identity(body("u")))


@pytest.mark.parametrize("version", [2**63, str(2**63), 7, "9" * 30, "-1", "1.5", "\u0661", "", None, ["7"]])
def test_a_version_that_no_store_can_reach_does_not_count_as_seen(version: object) -> None:
    register = Register()
    found = identity({"metadata": {"name": "a", "uid": "u", "resourceVersion": version}})
    register.record(found)
    assert found.version is None
    assert register.newest == 0


@pytest.mark.parametrize(
    "metadata", [{"name": "web"}, {"uid": "u"}, {"name": "web", "uid": ""}, {"name": 7, "uid": "u"}]
)
def test_a_body_without_a_name_and_a_uid_has_no_identity(metadata: object) -> None:
    assert identify({"metadata": metadata}) is None


@pytest.mark.parametrize("body", [None, 7, [], {}, {"metadata": 7}])
def test_a_body_that_is_no_object_at_all_has_no_identity(body: object) -> None:
    assert identify(body) is None


def test_an_object_of_a_kind_without_namespaces_is_known_by_its_name() -> None:
    body = {"metadata": {"name": "node", "uid": "u", "resourceVersion": "7"}}
    assert identify(body) == Identity("u", "node", 7)


def test_the_memory_of_the_removed_is_bounded() -> None:
    register = Register()
    for number in range(REMOVED_REMEMBERED + 10):
        register.remove(Identity(f"u{number}", f"k{number}", 1))
    assert register.is_news(Identity("u0", "k0", 1))
    assert not register.is_news(Identity(f"u{REMOVED_REMEMBERED + 9}", "k", 1))


def test_an_object_removed_without_versions_may_be_added_again() -> None:
    register = Register()
    register.record(identity(body("u")))
    assert register.remove(identity(body("u")))
    assert register.is_news(identity(body("u")))


# --- what is concluded from a list -----------------------------------------------------------------------------------


def test_what_a_list_lacked_is_believed_again_unless_it_is_older_than_it_was() -> None:
    register = Register()
    register.record(identity(body("u", "9")))
    assert register.remove(identity(body("u")), reported_by_watch=False)
    assert register.is_news(identity(body("u", "9")))
    assert not register.is_news(identity(body("u", "8")))


def test_what_a_list_lacked_comes_back_in_a_newer_version_only_where_we_have_written_to_it() -> None:
    register = Register()
    register.record(identity(body("u", "9")))
    register.outdate("u")
    register.record(identity(body("u", "9")))  # the same once more says nothing new
    register.remove(identity(body("u")), reported_by_watch=False)
    assert not register.is_news(identity(body("u", "9")))
    assert register.is_news(identity(body("u", "10")))


def test_what_was_shown_since_we_have_written_to_it_comes_back_as_it_was_shown() -> None:
    register = Register()
    register.record(identity(body("u", "9")))
    register.outdate("u")
    register.record(identity(body("u", "10")))
    register.remove(identity(body("u")), reported_by_watch=False)
    assert register.is_news(identity(body("u", "10")))
    register.outdate("nobody")
    register.remove(identity(body("nobody")), reported_by_watch=False)
    assert register.is_news(identity(body("nobody", "1", "other")))


def test_what_a_list_lacked_does_not_come_back_in_the_place_of_its_successor() -> None:
    register = Register()
    register.record(identity(body("u", "3")))
    register.remove(identity(body("u")), reported_by_watch=False)
    register.record(identity(body("successor", "9")))
    assert not register.is_news(identity(body("u", "3")))


def test_a_deletion_that_was_told_is_remembered_although_a_list_lacked_the_object_as_well() -> None:
    register = Register()
    register.record(identity(body("u", "9")))
    register.remove(identity(body("u", "10")))
    register.remove(identity(body("u")), reported_by_watch=False)
    assert not register.is_news(identity(body("u", "9")))


# --- a store that has gone back in time ------------------------------------------------------------------------------


def test_a_list_contradicts_what_was_reported_before_it_and_not_what_came_after_it() -> None:
    register = Register()
    register.record(identity(body("changed", "9", "a")))
    register.record(identity(body("same", "5", "b")))
    register.remove(identity(body("deleted", "8", "c")))
    listed = {"changed": 4, "same": 5, "deleted": 4, "new": 7}
    assert register.contradicted(listed, 20) == ["changed", "deleted"]
    assert register.contradicted(listed, 8) == ["deleted"]
    assert register.contradicted(listed, 7) == []
    assert register.contradicted({"changed": 12, "deleted": 12}, 20) == []


def test_after_a_new_beginning_the_first_report_of_each_object_is_believed() -> None:
    register = Register()
    register.record(identity(body("u", "9")))
    register.remove(identity(body("gone", "8", "other")))
    register.start_over()
    assert register.unsure == {"u"}
    assert register.known == {"u": "default/web"}
    assert register.newest == 0
    assert register.is_news(identity(body("gone", "2", "other")))
    old = identity(body("u", "2"))
    assert register.is_news(old)
    register.record(old)
    assert register.unsure == set()
    assert not register.is_news(identity(body("u", "1")))


def test_after_a_new_beginning_an_older_namesake_is_believed_too() -> None:
    register = Register()
    register.record(identity(body("later", "9")))
    register.start_over()
    earlier = identity(body("earlier", "2"))
    assert register.is_news(earlier)
    assert register.record(earlier) == "later"
    assert register.unsure == set()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans(), st.integers(1, 9)), max_size=30))
def test_a_uid_comes_back_as_a_naive_memory_says(steps: list[tuple[str, bool, bool, int]]) -> None:
    """Steps of (UID, removed?, told?, version); each UID has a name of its own."""
    register = Register()
    alive: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for uid, removed, told, version in steps:
        found = identity(body(uid, str(version), uid))
        if removed:
            register.remove(found, reported_by_watch=told)
            known = alive.pop(uid, 0)
            if told:
                deleted[uid] = max(version, known, deleted.get(uid, 0))
            elif known:
                deleted[uid] = max(known - 1, deleted.get(uid, 0))
        else:
            is_news = version > deleted[uid] if uid in deleted else version >= alive.get(uid, 0)
            assert register.is_news(found) is is_news
            if is_news:
                register.record(found)
                alive[uid] = version
                deleted.pop(uid, None)
        assert set(register.known) == set(alive)
