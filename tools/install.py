"""Runs `pip install` with the words behind it, and shows how far it is: one line that is rewritten on a terminal.

pip's own words are shown only if it fails. The exit code is pip's.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import IO

PLAIN_SECONDS = 10.0
SHOWN_LINES_OF_A_FAILED_RUN = 30
STEPS = (
    (re.compile(r"^Obtaining file:.*/([\w.-]+)$"), "reading {}"),
    (re.compile(r"^Collecting ([\w.-]+)"), "looking up {}"),
    (re.compile(r"^\s*Downloading ([\w.]+)"), "downloading {}"),
    (re.compile(r"^\s*Using cached ([\w.]+)"), "found {}"),
    (re.compile(r"^Installing collected packages: (.*)"), "installing {} packages"),
)


class Progress:
    """What pip is doing, from its output."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._on_terminal = out.isatty()
        self._started = self._shown = time.monotonic()
        self._found = 0

    def read(self, line: str) -> None:
        for pattern, words in STEPS:
            found = pattern.match(line)
            if found is not None:
                self._found += words.startswith("looking")
                self._show(words.format(self._shorten(found[1])))

    def _shorten(self, text: str) -> str:
        return str(text.count(",") + 1) if ", " in text else text.partition("-")[0]

    def _show(self, activity: str) -> None:
        now = time.monotonic()
        text = f"  packages: {self._found}, {activity}, {now - self._started:.0f} s"
        if self._on_terminal:
            print(f"\r\x1b[K{text}", end="", file=self._out, flush=True)
        elif now - self._shown >= PLAIN_SECONDS:
            self._shown = now
            print(text, file=self._out, flush=True)

    def finish(self) -> None:
        if self._on_terminal:
            print("\r\x1b[K", end="", file=self._out, flush=True)


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", *arguments]
    progress, said = Progress(sys.stderr), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            progress.read(line)
    progress.finish()
    if pip.returncode:
        print("".join(said[-SHOWN_LINES_OF_A_FAILED_RUN:]), end="", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
