"""Packages that bring plugins, as pip leaves them: a module, and the metadata that names its entry points."""

import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from textwrap import dedent

_numbers = count(1)


class Site:
    """A folder on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: list[str] = []

    def install(self, code: str, *names: str, package: str = "acme", version: str = "1.0") -> str:
        """A package of one module that offers its classes of these names; the module's name."""
        module = f"{package}_{next(_numbers)}"
        self.write(module, code)
        self.offer(package, version, {name: f"{module}:{name}" for name in names})
        return module

    def write(self, module: str, code: str) -> None:
        self.modules.append(module)
        (self.folder / f"{module}.py").write_text(dedent(code), encoding="utf-8")

    def offer(self, package: str, version: str, points: Mapping[str, str]) -> None:
        metadata = self.folder / f"{package}-{version}.dist-info"
        metadata.mkdir()
        lines = [f"{name} = {value}" for name, value in points.items()]
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text("\n".join(["[berth.plugins]", *lines, ""]))

    def forget(self) -> None:
        """The modules that were imported from here."""
        for module in self.modules:
            sys.modules.pop(module, None)
