"""Explanations: why a pod is pending, why it is on its node, and what would have to change.

the records                                     records
as API objects, as lines for people             objects, text, quantities
a pod judged on every node                      judgement, verdicts, near_misses, details
the table of reasons, and the page made of it   reasons, reasons_page
never or not now, preemption, why this node     prospects, preemption, choices
what would help                                 advice/
a question and its answer, in pieces            explainer, steps, subjects, ports
"""

from typing import TYPE_CHECKING

from berth.later import names_of

if TYPE_CHECKING:
    from berth.explain.explainer import Explainer, NoComparison
    from berth.explain.objects import comparison_object, to_object
    from berth.explain.ports import Knowledge, Policies, Waiting
    from berth.explain.records import Choice, Explanation, NodeComparison, PodState
    from berth.explain.steps import Steps, finish
    from berth.explain.subjects import Subject, find_subject, subject_of
    from berth.explain.text import comparison_sentences, sentences
else:
    __getattr__ = names_of(
        __name__,
        {
            "explainer": ("Explainer", "NoComparison"),
            "objects": ("comparison_object", "to_object"),
            "ports": ("Knowledge", "Policies", "Waiting"),
            "records": ("Choice", "Explanation", "NodeComparison", "PodState"),
            "steps": ("Steps", "finish"),
            "subjects": ("Subject", "find_subject", "subject_of"),
            "text": ("comparison_sentences", "sentences"),
        },
    )

__all__ = [
    "Choice",
    "Explainer",
    "Explanation",
    "Knowledge",
    "NoComparison",
    "NodeComparison",
    "PodState",
    "Policies",
    "Steps",
    "Subject",
    "Waiting",
    "comparison_object",
    "comparison_sentences",
    "find_subject",
    "finish",
    "sentences",
    "subject_of",
    "to_object",
]
