"""Which rows have which container images, and how large: sparse, as most images are on few nodes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from berth.engine.verdict import Int64Column


class ImageIndex:
    """Sizes in bytes by name and row; a name that no node has any more is forgotten."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, int]] = {}

    def replace(self, row: int, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """The images of a row were these and are those."""
        for name in before:
            if name not in after:
                rows = self._rows[name]
                del rows[row]
                if not rows:
                    del self._rows[name]
        for name, size in after.items():
            self._rows.setdefault(name, {})[row] = size

    def holders(self, name: str) -> tuple[NDArray[np.intp], Int64Column]:
        """The rows that have the image, in no order, and its size on each."""
        rows = self._rows.get(name, {})
        return np.fromiter(rows.keys(), np.intp, len(rows)), np.fromiter(rows.values(), np.int64, len(rows))

    def __len__(self) -> int:
        return len(self._rows)
