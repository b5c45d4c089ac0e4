"""Everything that a plugin or an expression refuses of what it is made from, as far as it tells.

A plugin reads its arguments one after the other and stops at the first that makes no sense: what else is wrong shows
when that is mended. Arguments that it does not know are another matter. Nothing hangs on them, so it can be asked again
without them, and all of them are told at once.
"""

from collections.abc import Callable, Mapping

from berth.engine.plugin import BadArgument
from berth.policy.expressions.language import BadExpression

MOST_REFUSALS = 16  # of one entry
_UNKNOWN = "unknown argument"  # how the refusal of one begins, whichever plugin it is

Refusal = tuple[str, str]
"""The field, inside the arguments, and what is wrong with it."""


def find_refusals(args: Mapping[str, object], make: Callable[[Mapping[str, object]], object]) -> list[Refusal]:
    """What `make` refuses of the arguments; empty where it takes them."""
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
