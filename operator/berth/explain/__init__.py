"""Explanations: why a pod is pending, why it is on its node, and what would have to change.

the records                                     records
as API objects, as lines for people             objects, text, quantities
"""

from typing import TYPE_CHECKING

from berth.later import names_of

if TYPE_CHECKING:
    from berth.explain.objects import comparison_object, to_object
    from berth.explain.records import Explanation, NodeComparison
    from berth.explain.text import comparison_sentences, sentences
else:
    __getattr__ = names_of(
        __name__,
        {
            "objects": ("comparison_object", "to_object"),
            "records": ("Explanation", "NodeComparison"),
            "text": ("comparison_sentences", "sentences"),
        },
    )

__all__ = [
    "Explanation",
    "NodeComparison",
    "comparison_object",
    "comparison_sentences",
    "sentences",
    "to_object",
]
