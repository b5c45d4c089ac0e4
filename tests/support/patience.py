"""How long tests wait for what they expect before they fail.

Usually it comes at once; the limit is for machines that are busy with other things. Where a test is expected to fail
(`make mutations`), the variable makes it fail sooner.
"""

import os
from typing import Final

VARIABLE: Final = "TEST_LIMIT_SECONDS"
LIMIT_SECONDS: Final = float(os.environ.get(VARIABLE, "60"))


def longest_test_seconds() -> float | None:
    """How long a whole test may take; None for as long as it wants."""
    return 3 * LIMIT_SECONDS if VARIABLE in os.environ else None
