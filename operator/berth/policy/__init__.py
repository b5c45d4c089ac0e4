"""SchedulingPolicy: read, laid over its base, compiled, and kept in the book of what is in force."""

from berth.policy.book import PolicyBook
from berth.policy.compile import ActivePolicy, activate, compile_policy, load_policy
from berth.policy.defaults import BUILT_IN
from berth.policy.importing import Imported, ImportProblem, import_configuration
from berth.policy.records import Policy, PolicyError, Predicate, Priority, Problem
from berth.policy.schema import base_of, parse_policy

__all__ = [
    "BUILT_IN",
    "ActivePolicy",
    "ImportProblem",
    "Imported",
    "Policy",
    "PolicyBook",
    "PolicyError",
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
