"""What rich makes of a scene, as text."""

import io

import pytest
from rich.console import Console

from berth.demo.drawing import STEPS, Scene, curve, draw, draw_end, end_lines
from berth.demo.picture import Picture
from berth.demo.scenario import make_plan
from demo.toys import REFUSAL, make_node, make_picture, make_pod, make_policy, refused, with_uid


def render(scene: Scene, width: int = 100, height: int = 34, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, record=True, width=width, height=height, force_terminal=terminal, color_system="256", no_color=False
    )
    console.print(draw(scene, width, height))
    return out.getvalue() if terminal else console.export_text()


def make_scene(picture: Picture, *, headline: str = "today's headline", with_before: bool = False) -> Scene:
    return Scene(picture, 12.34, "3 nodes in 2 zones", headline, 40, picture.fullness() if with_before else None)


def small_picture() -> Picture:
    return make_picture(
        make_node("a1", "zone-a"),
        make_node("a2", "zone-a"),
        make_node("b1", "zone-b"),
        make_policy(1),
        make_pod("web-1", node="a1", cpu_millicores=9500),
        make_pod("web-2", node="b1", cpu_millicores=500),
    )


def cluster(nodes: int) -> Picture:
    return make_picture(*(with_uid(machine.body()) for machine in make_plan(nodes, 100, 0).machines))


def test_each_zone_has_a_line_of_numbers_and_a_bar_for_each_node() -> None:
    text = render(make_scene(small_picture()), height=24)
    assert "zone-a  2 nodes, 1 in use, 1 empty, cpu 48 %" in text
    assert f"│ {STEPS[-1]}· " in text
    assert f"│ {STEPS[0]}  " in text


def test_the_numbers_and_the_policy_are_shown() -> None:
    text = render(make_scene(small_picture()))
    for words in ("placed   2 of 40", "running  2", "waiting  0", "spreading, in force", "12.3 s", "today's headline"):
        assert words in text


def test_the_last_decisions_are_told_the_latest_first() -> None:
    text = render(make_scene(small_picture()))
    assert text.index("web-2 on b1 which is 5 % full now") < text.index("web-1 on a1 which is 95 % full now")


def test_a_pod_that_cannot_fit_says_why_in_full() -> None:
    picture = small_picture()
    picture.observe("Pod", "ADDED", refused(make_pod("giant")), 1.0)
    text = " ".join(render(make_scene(picture)).replace("│", " ").split())
    assert f"pending giant: {REFUSAL}" in text


def test_how_full_nodes_were_before_the_change_stands_beside_how_full_they_are() -> None:
    picture = small_picture()
    assert "before" not in render(make_scene(picture))
    before = picture.fullness()
    picture.observe("SchedulingPolicy", "MODIFIED", make_policy(2, packing=True), 2.0)
    picture.observe("Pod", "DELETED", make_pod("web-2", node="b1"), 2.0)
    text = render(Scene(picture, 3.0, "title", "", 40, before))
    assert "before" in text
    (empty,) = [line for line in text.splitlines() if "empty      " in line]
    assert [word for word in empty.split() if word.isdigit()][:2] == ["1", "2"]
    assert "packing, in force" in text


def test_a_policy_that_is_not_yet_in_force_is_not_called_so() -> None:
    picture = make_picture(make_policy(2, active=1, packing=True))
    assert "packing, applied" in render(make_scene(picture))
    assert "none yet" in render(make_scene(Picture()))


@pytest.mark.parametrize(("width", "height"), [(70, 19), (80, 23), (60, 40), (100, 33), (200, 60)])
@pytest.mark.parametrize("nodes", [3, 200, 2000])
def test_the_picture_fits_the_terminal_and_every_node_is_in_it(width: int, height: int, nodes: int) -> None:
    picture = cluster(nodes)
    picture.observe("Pod", "ADDED", refused(make_pod("giant")), 1.0)
    lines = render(make_scene(picture, with_before=True), width, height).splitlines()
    assert len(lines) == height, "the height that there is, is used"
    assert max(len(line) for line in lines) <= width
    for words in ("Queue and rate", "Last decisions", "pending giant", "zone-c", "policy"):
        assert words in "".join(lines)
    bars = sum(line.count("·") for line in lines)
    assert bars == nodes or "(a bar" in "".join(lines)


def test_bars_are_higher_on_a_higher_terminal() -> None:
    scene = make_scene(small_picture())
    low, high = (render(scene, 100, height).splitlines() for height in (24, 40))
    (top,) = [line for line in low if line.startswith(f"│ {STEPS[-1]}·")]
    assert top
    full = [line for line in high if line.startswith(f"│ {STEPS[-1]}")]
    assert len(full) == 3, "and most of a fourth"
    assert full[-1].startswith(f"│ {STEPS[-1]}· ")


def test_a_reason_that_is_too_long_for_the_terminal_says_that_it_goes_on() -> None:
    picture = small_picture()
    body = refused(make_pod("giant"))
    body["status"]["conditions"][0]["message"] = "0/3 nodes are available: " + "3 Insufficient cpu, " * 30
    picture.observe("Pod", "ADDED", body, 1.0)
    lines = render(make_scene(picture), 70, 19).splitlines()
    assert "…" in lines[-2]
    assert len(lines) == 19


def test_at_the_end_every_zone_has_its_bars() -> None:
    scene = make_scene(cluster(200))
    for height, expected in ((0, 8), (8, 8), (13, 11), (40, 17)):
        out = io.StringIO()
        Console(file=out, width=80).print(draw_end(scene, 80, height))
        lines = out.getvalue().splitlines()
        assert len(lines) == expected
        assert sum("zone-" in line for line in lines) == 3
    assert end_lines(scene) == 8


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b[" in render(make_scene(small_picture()), terminal=True)
    out = io.StringIO()
    Console(file=out, width=100, force_terminal=False).print(draw(make_scene(small_picture()), 100, 34))
    assert "\x1b[" not in out.getvalue()


def test_a_narrow_terminal_has_the_panels_below_each_other() -> None:
    lines = render(make_scene(small_picture()), 60, 60).splitlines()
    assert not any("Nodes by how full" in line and "Queue and rate" in line for line in lines)
    assert max(len(line) for line in lines) <= 60


def test_a_curve_is_as_high_as_its_highest_number() -> None:
    assert curve([0, 5, 10]).plain == f"{STEPS[0]}{STEPS[4]}{STEPS[7]}"
    assert curve([0, 0]).plain == STEPS[0] * 2
    assert curve([]).plain == ""
