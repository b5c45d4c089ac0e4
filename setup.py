"""Puts crds/ and policies/ into the wheel, below berth/data/; pyproject.toml says everything else.

They stay at the top of the repository, where kubectl users look for them, and git has one copy. `berth.shipped` finds
them in either place.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("crds", "policies")


class BuildWithShippedFiles(build_py):
    """Package data from folders outside of the package. An editable installation reads them where they are."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for target, source in self._shipped().items():
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), *self._shipped().values()]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self._shipped()]

    def get_output_mapping(self) -> dict[str, str]:
        return {**super().get_output_mapping(), **self._shipped()}

    def _shipped(self) -> dict[str, str]:
        """Where each file is put, and where it is."""
        target = Path(self.build_lib, "berth", "data")
        files = [file for folder in FOLDERS for file in sorted(Path(folder).glob("*.yaml"))]
        return {str(target / file): str(file) for file in files}


setup(cmdclass={"build_py": BuildWithShippedFiles})
