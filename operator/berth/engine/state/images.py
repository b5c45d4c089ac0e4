"""ImageIndex: the rows that have a container image, and its size there; sparse, as most images are on few nodes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


class ImageIndex:
    """Rows by image name and by size in bytes, which is nearly always the same; unused images are dropped."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, dict[int, None]]] = {}

    def replace(self, row: int, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Replaces the images of a row."""
        for name, size in before.items():
            if after.get(name) != size:
                self._discard(name, size, row)
        for name, size in after.items():
            if before.get(name) != size:
                self._rows.setdefault(name, {}).setdefault(size, {})[row] = None

    def holders(self, name: str) -> list[tuple[int, NDArray[np.intp]]]:
        """Returns the sizes of the image, and the rows that have it in that size, in no particular order."""
        return [(size, np.fromiter(rows, np.intp, len(rows))) for size, rows in self._rows.get(name, {}).items()]

    def __len__(self) -> int:
        return len(self._rows)

    def _discard(self, name: str, size: int, row: int) -> None:
        sizes = self._rows[name]
        del sizes[size][row]
        if not sizes[size]:
            del sizes[size]
        if not sizes:
            del self._rows[name]
