"""What the demo ends with: as much of it as leaves the bars of the zones on the screen."""

from pathlib import Path

import pytest

from berth.demo.closing import ClosingText, lines_on_screen
from berth.demo.next_steps import steps_afterwards, steps_on_cluster

TEXT = ClosingText(
    result="1200 of 1200 pods placed on 200 nodes in 23.0 s (seed 0): 300 pods/s while there was work, "
    "420 in the best second",
    table=[f"  row {number}" for number in range(6)],
    pending=["pending: demo/giant: " + "no room " * 30],
    policy="policy: from spreading to packing in 0.1 s, nothing restarted",
    next_steps=steps_afterwards(),
)
ZONE_PANEL_LINES = 8


class Kept:
    kubeconfig = Path("/tmp/berth-demo-abcdefgh/kubeconfig")
    header_file = Path("/tmp/berth-demo-abcdefgh/header")
    page = "http://127.0.0.1:65535/apis/explain.berth.dev/v1alpha1/ui/"
    operator_address = "127.0.0.1:40000"


def test_without_a_terminal_everything_is_said_in_full() -> None:
    lines = TEXT.whole()
    assert TEXT.pending[0] in lines
    assert lines[0] == ""
    assert lines[-4] == "Next:"


@pytest.mark.parametrize(("width", "height"), [(70, 20), (80, 24), (120, 40)])
@pytest.mark.parametrize("is_kept", [False, True])
def test_on_a_terminal_the_zones_the_result_and_the_next_steps_are_on_the_screen(
    width: int, height: int, is_kept: bool
) -> None:
    steps = steps_on_cluster(Kept()) if is_kept else steps_afterwards()
    text = ClosingText(TEXT.result, TEXT.table, TEXT.pending, TEXT.policy, (), steps)
    room = height - 1 - ZONE_PANEL_LINES
    lines = text.fit(width, room)
    assert lines_on_screen(lines, width) <= room
    assert set(steps) <= set(lines)
    assert "1200 of 1200 pods placed" in " ".join(lines)


def test_what_matters_least_is_left_out_first() -> None:
    assert "row 5" in " ".join(TEXT.fit(80, 15))
    assert "…" in " ".join(TEXT.fit(80, 15))
    assert "giant" not in " ".join(TEXT.fit(80, 13))
    assert "policy:" in " ".join(TEXT.fit(80, 13))
    assert "row 0" not in " ".join(TEXT.fit(80, 8))


def test_problems_are_said_however_small_the_terminal_is() -> None:
    text = ClosingText("0 of 9 pods placed", TEXT.table, problems=["FAILED: the operator ended"], next_steps=["Next:"])
    assert text.fit(80, 1) == ["0 of 9 pods placed", "FAILED: the operator ended", "Next:"]


def test_three_commands_are_named_in_any_case() -> None:
    assert len([line for line in steps_afterwards() if line.startswith("  ")]) == 3
    said = " ".join(steps_on_cluster(Kept()))
    assert all(command in said for command in ("kubectl run x --image=nginx", "get why giant", "berth top"))
