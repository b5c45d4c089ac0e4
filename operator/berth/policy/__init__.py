"""SchedulingPolicy: what a manifest says, what it compiles to, and which policy decides for which pod.

the fields: names, bounds, CRD, documentation           fields/
a manifest becomes a Policy, or a list of problems      schema, entries, settings, selecting, extenders, reading
a policy that is based on another one                   bases, defaults, resolution
a Policy becomes an ActivePolicy with its pipeline      compile, refusals, expressions/
the objects of the cluster, and which one decides       policy_objects, conflicts, selection, policy_store
what the status says, and the pods that none selects    status, status_events, counting, usage, fingerprint, unserved
what would be said of a policy that is not applied yet  reviewing
what settings and feature gates forbid                  limits, features, addresses
kube-scheduler's configurations, files of policies      importing/, linting, documents
"""

from typing import TYPE_CHECKING

from berth.later import names_of

if TYPE_CHECKING:
    from berth.policy.compile import ActivePolicy, activate, compile_policy, load_policy
    from berth.policy.defaults import BUILT_IN
    from berth.policy.importing import Imported, ImportProblem, import_configuration
    from berth.policy.policy_store import PolicyStore
    from berth.policy.records import Policy, PolicyError, Predicate, Priority, Problem
    from berth.policy.schema import base_of, parse_policy
else:  # the command line reads names and documents, and not the engine that is behind these
    __getattr__ = names_of(
        __name__,
        {
            "compile": ("ActivePolicy", "activate", "compile_policy", "load_policy"),
            "defaults": ("BUILT_IN",),
            "importing": ("Imported", "ImportProblem", "import_configuration"),
            "policy_store": ("PolicyStore",),
            "records": ("Policy", "PolicyError", "Predicate", "Priority", "Problem"),
            "schema": ("base_of", "parse_policy"),
        },
    )

__all__ = [
    "BUILT_IN",
    "ActivePolicy",
    "ImportProblem",
    "Imported",
    "Policy",
    "PolicyError",
    "PolicyStore",
    "Predicate",
    "Priority",
    "Problem",
    "activate",
    "base_of",
    "compile_policy",
    "import_configuration",
    "load_policy",
    "parse_policy",
]
