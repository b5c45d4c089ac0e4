"""A hash of what a policy means: equal for two policies that mean the same, whatever their names.

It is made of the resolved policy, with all that it has from its base and that policies based on it inherit, as JSON
with sorted keys. Name, UID, generation and the places in the manifest are left out.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from berth.policy.records import Extender, Policy, Predicate, Priority

DIGITS = 12
_LEFT_OUT = {
    Policy: ("name", "uid", "generation"),
    Predicate: ("origin",),
    Priority: ("origin",),
    Extender: ("origin",),
}


def fingerprint(policy: Policy) -> str:
    """Returns the first hexadecimal digits of a SHA-256."""
    text = json.dumps(_plain(policy), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def _plain(value: object) -> object:
    if is_dataclass(value):
        names = [entry.name for entry in fields(value) if entry.name not in _LEFT_OUT.get(type(value), ())]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 10.0 and 10 are the same number of seconds
    return value
