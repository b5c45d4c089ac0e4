"""`make install` says how far it is: tools/install.py reads what pip says."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "install.py"
SAID = (
    "Obtaining file:///home/user/berth",
    "Collecting numpy>=2.0 (from berth)",
    "  Downloading numpy-2.3.0-cp311-manylinux.whl (16 MB)",
    "Collecting orjson>=3.10",
    "  Using cached orjson-3.11.0-cp311.whl",
    "Installing collected packages: orjson, numpy",
    "Successfully installed numpy-2.3.0 orjson-3.11.0",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_terminal_sees_each_step_in_one_line_that_is_gone_at_the_end() -> None:
    out = Terminal()
    progress = _install().Progress(out)
    for line in SAID:
        progress.read(line)
    progress.finish()
    shown = [text.partition(", 0 s")[0].strip() for text in out.getvalue().split("\r\x1b[K")]
    assert shown == [
        "",
        "packages: 0, reading berth",
        "packages: 1, looking up numpy",
        "packages: 1, downloading numpy",
        "packages: 2, looking up orjson",
        "packages: 2, found orjson",
        "packages: 2, installing 2 packages",
        "",
    ]


def test_a_log_is_not_flooded() -> None:
    out = io.StringIO()
    progress = _install().Progress(out)
    for line in SAID:
        progress.read(line)
    progress.finish()
    assert out.getvalue() == ""


def test_a_failure_has_the_words_of_pip_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pip = tmp_path / "python"
    pip.write_text("#!/bin/sh\necho Collecting nothing\necho ERROR: no such package\nexit 3\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    assert _install().main(["nothing"]) == 3
    assert "ERROR: no such package" in capsys.readouterr().err
