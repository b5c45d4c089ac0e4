"""Predicates and priorities written in the policy itself, as CEL expressions (docs/expressions.md has the language).

language.py    text to a checked program, with readable errors
syntax.py      the program's tree, read from what the library serialises
fields.py      what an expression may read, and its types
reads.py       what an expression does read
cost.py        an upper bound of what one evaluation costs
inputs.py      nodes grouped by what an expression reads of them
evaluation.py  answers, once a distinct input
plugins.py     the same as plugins: `make_predicate`, `make_priority`
"""

from berth.policy.expressions.plugins import Expression, make_predicate, make_priority

__all__ = ["Expression", "make_predicate", "make_priority"]
