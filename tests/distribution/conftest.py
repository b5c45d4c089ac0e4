"""The wheel, built once for all tests of this folder."""

import shutil
from pathlib import Path

import pytest

from distribution.building import LEFT_OUT, SOURCES, build
from support.repository import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, sources / name, ignore=LEFT_OUT)
        else:
            shutil.copy(path, sources / name)
    return build(sources, tmp_path_factory.mktemp("wheel"))
