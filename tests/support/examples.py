"""How many examples the longest property tests try: some in `make test`, all of them in `make test-all`.

The hypothesis profile says which: `full` in `make test-all`, `few` otherwise (tests/conftest.py).
"""

from typing import Final

from hypothesis import settings

FEW: Final = "few"
SHARE: Final = 4


def examples(full: int) -> int:
    """`full`, or a quarter of it in a run with few examples. Read when a test module is imported."""
    return full // SHARE if settings.get_current_profile_name() == FEW else full
