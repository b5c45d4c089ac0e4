"""Where the demo is seen: a picture that redraws itself on a terminal, lines everywhere else.

Both take the same two things: headlines, each shown once, and scenes, which come several times a second. A terminal
that cannot move its cursor, or whose encoding lacks the characters of the picture, gets lines too. Lines are plain
ASCII without colours, so that a log file or a pipe can hold them.
"""

from typing import Protocol

from rich.console import Console
from rich.live import Live

from berth.demo.closing import ClosingText, lines_on_screen
from berth.demo.drawing import STEPS, Scene, draw, draw_end, end_lines

LINE_SECONDS = 2.0
FRAME_SECONDS = 0.2
WHOLE_PICTURE_LINES = 22


class DemoView(Protocol):
    """Something to look at. `close` leaves what was shown where it is; `end` leaves it with text below."""

    def tell(self, now_seconds: float, headline: str) -> None: ...

    def show(self, scene: Scene) -> None: ...

    def end(self, text: ClosingText) -> None: ...

    def close(self) -> None: ...


def make_view(console: Console) -> DemoView:
    """What suits the console."""
    return Screen(console) if can_draw(console) else Lines(console)


def can_draw(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal and _can_encode(console.encoding)


def _can_encode(encoding: str) -> bool:
    try:
        STEPS.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


class Screen:
    """The picture, redrawn in place five times a second. Headlines are part of the scene."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._latest: Scene | None = None
        self._next_seconds = 0.0
        # Redrawn when a scene comes and not by a thread of rich's own: the picture changes in our loop only.
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()

    def tell(self, now_seconds: float, headline: str) -> None:
        """The next scene says it."""

    def show(self, scene: Scene) -> None:
        self._latest = scene
        if scene.now_seconds >= self._next_seconds:
            self._next_seconds = scene.now_seconds + FRAME_SECONDS
            self._draw(scene)

    def _draw(self, scene: Scene) -> None:
        width, height = self._console.size
        # One line less than there are: a picture as high as the terminal makes it scroll.
        self._live.update(draw(scene, width, height - 1), refresh=True)

    def end(self, text: ClosingText) -> None:
        """The bars stay above the text, with the whole picture where there is room for both."""
        if self._latest is None or not self._live.is_started:
            return
        width, height = self._console.size
        # The line of the prompt, which comes last, must not push the first one out.
        lines = text.fit(width, height - 1 - end_lines(self._latest))
        left = height - 1 - lines_on_screen(lines, width)
        draw_it = draw if left >= WHOLE_PICTURE_LINES else draw_end
        self._live.update(draw_it(self._latest, width, left), refresh=True)
        self._live.stop()
        for line in lines:
            say(self._console, line)

    def close(self) -> None:
        """The last picture stays."""
        if not self._live.is_started:
            return
        if self._latest is not None:
            self._draw(self._latest)
        self._live.stop()


class Lines:
    """A line for each headline, and one with the numbers every two seconds while they change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_seconds = LINE_SECONDS
        self._last = ""

    def tell(self, now_seconds: float, headline: str) -> None:
        say(self._console, f"{now_seconds:5.1f} s  {headline}")

    def show(self, scene: Scene) -> None:
        if scene.now_seconds < self._next_seconds:
            return
        self._next_seconds = scene.now_seconds + LINE_SECONDS
        numbers = numbers_of(scene)
        if numbers != self._last:
            self._last = numbers
            self.tell(scene.now_seconds, numbers)

    def end(self, text: ClosingText) -> None:
        for line in text.whole():
            say(self._console, line)

    def close(self) -> None:
        """Lines need no end."""


def numbers_of(scene: Scene) -> str:
    """The picture in one line."""
    picture = scene.picture
    fullness = picture.fullness()
    return (
        f"placed {picture.placed} of {scene.planned}, waiting {len(picture.waiting())}, "
        f"{picture.rate(scene.now_seconds):.0f} pods/s; {fullness.in_use} nodes in use, {fullness.empty} empty, "
        f"cpu {fullness.cpu_percent:.0f} %, of those in use {fullness.in_use_percent:.0f} %"
    )


def say(console: Console, text: str) -> None:
    """One line as it is: no colours, no wrapping, nothing taken for markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
