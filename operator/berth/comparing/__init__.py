"""Which decisions change when one policy takes the place of another.

Two policies are asked about the same pods (`outcomes`), and where they say different things, that is a difference
(`differences`). The pods are those of cases in a file, each by itself (`cases`), or those of a cluster (`cluster`),
which each policy places one after another on a copy of the cluster (`sequence`).

Every node is looked at, whatever `percentageOfNodesToScore` says, and extenders are not asked: what they would say is
not part of the comparison.
"""

from berth.comparing.differences import Comparison, DecisionChange, Difference, Skipped, compare
from berth.comparing.outcomes import Outcome, Subject

__all__ = ["Comparison", "DecisionChange", "Difference", "Outcome", "Skipped", "Subject", "compare"]
