"""Configurations of kube-scheduler, of any version that had them, as SchedulingPolicy manifests.

a file, a ConfigMap, a provider's name (sources)
    --> KubeSchedulerConfiguration (translating)  --> each profile (profiles, by the rules in expansion)
    --> Policy, up to 1.22 (old_policies)
    --> manifests as text, with comments on what they cannot say (manifest)
"""

from berth.policy.importing.configuration import ImportProblem
from berth.policy.importing.translating import Imported, import_configuration

__all__ = ["ImportProblem", "Imported", "import_configuration"]
