"""The files of this repository."""

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = {"build", "dist", "results", "__pycache__"}  # by `make`
TEXT = {".cfg", ".in", ".md", ".py", ".sh", ".toml", ".tpl", ".txt", ".yaml", ".yml"}
TEXT_NAMES = {"Dockerfile", "Makefile", "run"}


def text_files() -> Iterator[Path]:
    """Yields what people write: sources, pages and definitions; nothing that is made or installed here."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in MADE and not _is_hidden(name))
        for name in sorted(names):
            if Path(name).suffix in TEXT or name in TEXT_NAMES:
                yield Path(folder, name)


def _is_hidden(name: str) -> bool:
    return (name.startswith(".") and name not in (".ci", ".github")) or name.endswith(".egg-info")
