"""Who sees the picture and who gets lines."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from berth.demo.closing import ClosingText
from berth.demo.drawing import Scene
from berth.demo.picture import Picture
from berth.demo.svg import save_svg
from berth.demo.views import Lines, Screen, can_draw, make_view
from demo.toys import make_node, make_picture, make_pod, make_policy


def lines_on(out: io.StringIO) -> Lines:
    view = make_view(Console(file=out, force_terminal=False))
    assert isinstance(view, Lines)
    return view


def scene_at(now_seconds: float, picture: Picture) -> Scene:
    return Scene(picture, now_seconds, "title", "headline", 10)


def small_picture() -> Picture:
    return make_picture(make_node("n1", "a"), make_node("n2", "a"), make_policy(1), make_pod("p", node="n1"))


def test_news_are_one_line_each_whatever_their_length() -> None:
    out = io.StringIO()
    lines_on(out).tell(3.21, "[bold]" + "x" * 200)
    assert out.getvalue() == f"  3.2 s  [bold]{'x' * 200}\n"


def test_lines_are_plain_ascii_without_colours() -> None:
    out = io.StringIO()
    view = lines_on(out)
    view.show(scene_at(2.0, small_picture()))
    view.close()
    assert out.getvalue() == (
        "  2.0 s  placed 1 of 10, waiting 0, 0 pods/s; 1 nodes in use, 1 empty, cpu 5 %, of those in use 10 %\n"
    )
    assert out.getvalue().isascii()


def test_numbers_come_every_two_seconds_and_only_when_they_change() -> None:
    out = io.StringIO()
    view, picture = lines_on(out), small_picture()
    for tenth in range(100):
        view.show(scene_at(tenth / 10, picture))
    first = out.getvalue().count("\n")
    assert first == 1
    picture.observe("Pod", "ADDED", make_pod("q", node="n2"), 10.0)
    view.show(scene_at(12.5, picture))
    assert out.getvalue().count("\n") == first + 1


def test_a_terminal_gets_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal("utf-8")
    view = make_view(Console(file=out, force_terminal=True, width=100, height=40))
    assert isinstance(view, Screen)
    view.tell(1.0, "headline")
    view.show(scene_at(1.0, small_picture()))
    view.close()
    assert "Last decisions" in out.getvalue()
    assert out.getvalue().count("\x1b[?25h") == 1  # the cursor is there again


def test_the_bars_stay_above_the_text_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    text = ClosingText("all was well", ["a table"], next_steps=["Next:", "  berth demo --keep"])
    for height, has_panels in ((12, False), (40, True)):
        out = Terminal("utf-8")
        view = make_view(Console(file=out, force_terminal=True, width=100, height=height))
        view.show(scene_at(1.0, small_picture()))
        view.end(text)
        view.close()
        last = out.getvalue().rpartition("Berth demo")[2]
        assert "2 nodes, 1 in use" in last
        assert last.index("2 nodes") < last.index("all was well") < last.index("berth demo --keep")
        assert ("Last decisions" in last) is has_panels
        assert last.count("\n") < height


def test_a_terminal_that_cannot_show_the_picture_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert not can_draw(Console(file=Terminal("ascii"), force_terminal=True))
    monkeypatch.setenv("TERM", "dumb")
    assert not can_draw(Console(file=Terminal("utf-8"), force_terminal=True))


def test_the_portrait_is_an_svg_that_fetches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "demo.svg"
    save_svg(scene_at(2.0, small_picture()), path)
    svg = path.read_text()
    assert svg.startswith("<svg")
    assert "berth&#160;demo" in svg or "berth demo" in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    save_svg(scene_at(2.0, small_picture()), path)
    assert path.read_text() == svg


class Terminal(io.StringIO):
    """A file with an encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding
