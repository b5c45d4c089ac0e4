"""Scheduler names that are nearly right."""

import pytest

from berth.policy.near_names import nearest_name

KNOWN = ["berth", "berth-binpack", "batch"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("berth-binpak", "berth-binpack"),
        ("berth-binpcak", "berth-binpack"),
        ("Berth-Binpack", "berth-binpack"),
        ("bert", "berth"),
        ("brth", "berth"),
        ("berth-binpack", ""),
        ("berth-spread", ""),
        ("bat", ""),
        ("default-scheduler", ""),
        ("", ""),
        ("x" * 300, ""),
    ],
)
def test_a_slip_or_two_are_recognised_and_other_names_are_left_alone(name: str, meant: str) -> None:
    assert nearest_name(name, KNOWN) == meant


def test_of_several_the_nearest_is_meant() -> None:
    assert nearest_name("team-abcd", ["team-abcx", "team-abxy"]) == "team-abcx"
