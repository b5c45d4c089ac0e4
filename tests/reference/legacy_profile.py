"""A Policy of kube-scheduler 1.17 as a profile.

Entries with an argument are what their argument says, whatever they are called; the others go by their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .profile import Profile

BY_ARGUMENT = {
    "labelsPresence": "CheckNodeLabelPresence",
    "serviceAffinity": "CheckServiceAffinity",
    "serviceAntiAffinity": "ServiceAntiAffinity",
    "labelPreference": "LabelPreference",
}


def profile_of_policy(policy: Mapping[str, Any]) -> Profile:
    return Profile(
        tuple(_entry(predicate) for predicate in policy.get("predicates") or ()),
        tuple((*_entry(priority), priority["weight"]) for priority in policy.get("priorities") or ()),
    )


def _entry(body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The plugin and its arguments; it answers under the name that the policy gives it."""
    for key, args in (body.get("argument") or {}).items():
        return BY_ARGUMENT[key], {**args, "alias": body["name"]}
    return body["name"], {}
