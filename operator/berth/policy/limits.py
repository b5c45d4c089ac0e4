"""What policies may not do: limits that the settings of the process set for the authors of policies.

    reserved names         a policy that would decide for one of these scheduler names is refused
    protected namespaces   their pods are decided by the built-in policy and by trusted policies only
    trusted policies       the policies, by name, that neither of the two limits
    addresses              where extenders may be

A trusted policy must be based on Berth's own bases or on trusted policies; otherwise an editor of its base could change
what it decides. A policy in mode Shadow decides nothing, and may have any name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from berth.model.pod import DEFAULT_SCHEDULER
from berth.policy.addresses import EVERYWHERE, ExtenderAddresses
from berth.policy.records import Mode, Policy, Problem

TRUSTED_SETTING = "--trusted-policies"
RESERVED_NAMES = (DEFAULT_SCHEDULER,)
PROTECTED_NAMESPACES = ("kube-system",)


@dataclass(frozen=True, slots=True)
class Limits:
    """See the module's docstring. The defaults limit nothing: they are for policies that are only read."""

    reserved_names: frozenset[str] = frozenset()
    protected_namespaces: frozenset[str] = frozenset()
    trusted_policies: frozenset[str] = frozenset()
    addresses: ExtenderAddresses = EVERYWHERE

    def reserves(self, scheduler_name: str, policy_name: str) -> bool:
        """Whether the policy may not decide for pods of this scheduler name."""
        return scheduler_name in self.reserved_names and policy_name not in self.trusted_policies

    def refusals(self, policy: Policy, base: str | None) -> Iterator[Problem]:
        """Returns what the policy may not do; `base` is the policy object it is based on, None for Berth's own."""
        if policy.mode is not Mode.SHADOW and self.reserves(policy.scheduler_name, policy.name):
            text = f"{policy.scheduler_name} is reserved: {TRUSTED_SETTING} of the operator does not name this policy"
            yield Problem("spec.schedulerName", text)
        trusted = self.trusted_policies
        if policy.name in trusted and base is not None and base not in trusted:
            text = f"this policy is trusted and {base} is not: {TRUSTED_SETTING} of the operator does not name it"
            yield Problem("spec.base", text)
        for extender in policy.extenders:
            problem = self.addresses.host_problem(urlsplit(extender.url_prefix).hostname or "")
            if problem:
                yield Problem(f"{extender.origin}.urlPrefix", problem)


NO_LIMITS = Limits()
DEFAULT_LIMITS = Limits(frozenset(RESERVED_NAMES), frozenset(PROTECTED_NAMESPACES), frozenset(), ExtenderAddresses())
"""Those of a process whose settings say nothing else."""
