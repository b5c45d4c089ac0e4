"""The message that says why no policy decides for a pod with one of our scheduler names, and where to look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from berth.model import Pod
from berth.policy.defaults import BUILT_IN
from berth.policy.limits import TRUSTED_SETTING
from berth.policy.records import Policy
from berth.policy.wording import list_names


@dataclass(frozen=True, slots=True)
class Idle:
    """The policies that have one schedulerName and do nothing for it, by name."""

    disabled: tuple[str, ...] = ()
    never_valid: tuple[str, ...] = ()


NONE_IDLE = Idle()


def explain(
    pod: Pod,
    namespace_labels: Mapping[str, str],
    idle: Idle,
    active: Sequence[Policy],
    untrusted: Sequence[str] = (),
) -> str:
    """Returns the message for a pod that none of the active policies selects, the built-in one included.

    `untrusted` are the policies that may not decide for the pod because its namespace is protected.
    """
    reasons = []
    if untrusted:
        reasons.append(
            f"the namespace {pod.namespace} is protected, and {TRUSTED_SETTING} of the operator does not name "
            f"{list_names(untrusted)}"
        )
    if active:
        others = [f"{policy.name} ({_mismatch(policy, pod, namespace_labels)})" for policy in active]
        reasons.append(f"these select other pods: {list_names(others)}")
    if idle.disabled:
        reasons.append(f"disabled: {list_names(idle.disabled)}")
    if idle.never_valid:
        reasons.append(f"never valid, see condition Accepted: {list_names(idle.never_valid)}")
    if not reasons:
        reasons.append("there is none")
    if pod.scheduler_name == BUILT_IN.scheduler_name and not active:
        reasons.append("the built-in policy is switched off")
    return f"no SchedulingPolicy with schedulerName {pod.scheduler_name} decides for this pod: {'; '.join(reasons)}"


def _mismatch(policy: Policy, pod: Pod, namespace_labels: Mapping[str, str]) -> str:
    """Returns which of the selectors do not match."""
    fields = []
    if policy.namespace_selector is not None and not policy.namespace_selector.matches(namespace_labels):
        fields.append("namespaceSelector")
    if policy.pod_selector is not None and not policy.pod_selector.matches(pod.labels):
        fields.append("podSelector")
    return " and ".join(fields)
