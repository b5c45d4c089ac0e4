"""What the register believes."""

from typing import Any

from berth.scheduler.versions import REMOVED_REMEMBERED, Identity, Register


def body(uid: str = "", version: object = None, name: str = "web") -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "default", "name": name}
    if uid:
        metadata["uid"] = uid
    if version is not None:
        metadata["resourceVersion"] = version
    return {"metadata": metadata}


def test_versions_are_compared_as_numbers_and_not_as_text() -> None:
    register = Register()
    register.record(register.identify(body("u", "9")))
    assert register.is_news(register.identify(body("u", "10")))
    assert not register.is_news(register.identify(body("u", "8")))
    assert register.is_news(register.identify(body("u", "9")))


def test_a_version_that_cannot_be_compared_is_believed() -> None:
    register = Register()
    register.record(register.identify(body("u", "9")))
    assert register.is_news(register.identify(body("u", "opaque")))
    assert register.is_news(register.identify(body("u")))


def test_a_body_without_a_uid_is_about_whoever_has_the_name() -> None:
    register = Register()
    assert register.identify(body()).uid == "default/web"
    register.record(register.identify(body("u", "1")))
    assert register.identify(body()) == Identity("u", "default/web", None)


def test_a_body_that_is_no_object_at_all_has_an_identity_nevertheless() -> None:
    assert Register().identify({"metadata": 7}) == Identity("", "", None)


def test_the_memory_of_the_removed_is_bounded() -> None:
    register = Register()
    for number in range(REMOVED_REMEMBERED + 10):
        register.remove(Identity(f"u{number}", f"k{number}", 1))
    assert register.is_news(Identity("u0", "k0", 1))
    assert not register.is_news(Identity(f"u{REMOVED_REMEMBERED + 9}", "k", 1))


def test_an_object_removed_without_versions_may_be_added_again() -> None:
    register = Register()
    register.record(register.identify(body("u")))
    assert register.remove(register.identify(body("u")))
    assert register.is_news(register.identify(body("u")))
