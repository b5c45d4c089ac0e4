"""All arguments that a plugin refuses, as far as they can be found in one pass.

A plugin reads its arguments one after the other and stops at the first invalid one; the next problem is found when that
is fixed. Unknown arguments are different. Nothing depends on them, so the plugin is built again without them, and all
of them are reported at once.
"""

from collections.abc import Callable, Mapping

from berth.engine.plugin import BadArgument
from berth.policy.expressions.language import BadExpression

MOST_REFUSALS = 16  # of one entry
_UNKNOWN = "unknown argument"  # how the refusal of one begins, whichever plugin it is

Refusal = tuple[str, str]
"""The field, inside the arguments, and what is wrong with it."""


def find_refusals(args: Mapping[str, object], make: Callable[[Mapping[str, object]], object]) -> list[Refusal]:
    """Returns the arguments that `make` refuses; empty if it accepts them all."""
    left = dict(args)
    found: list[Refusal] = []
    while len(found) < MOST_REFUSALS:
        try:
            make(left)
        except BadArgument as error:
            found += _told(error)
            if error.field not in left or not error.problem.startswith(_UNKNOWN):
                break
            del left[error.field]
        else:
            break
    return found[:MOST_REFUSALS]


def _told(error: BadArgument) -> list[Refusal]:
    problems = error.problems if isinstance(error, BadExpression) else (error.problem,)
    return [(error.field, problem) for problem in problems]
