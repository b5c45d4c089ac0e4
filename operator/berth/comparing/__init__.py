"""Which decisions change when one policy takes the place of another.

Two policies are asked about the same pods, each pod by itself on the cluster as it stands (`outcomes`), and where they
say different things, that is a difference (`differences`). The pods are those of cases in a file (`cases`) or those of
a cluster, which is read once and not written to (`cluster`).

Every node is looked at, whatever `percentageOfNodesToScore` says, and extenders are not asked: what they would say is
not part of the comparison.
"""

from berth.comparing.differences import Comparison, DecisionChange, Difference, Skipped, compare
from berth.comparing.outcomes import Outcome, Subject

__all__ = ["Comparison", "DecisionChange", "Difference", "Outcome", "Skipped", "Subject", "compare"]
