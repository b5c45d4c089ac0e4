"""`/configz`: the configuration in force as JSON, under the name of the component, as kube-scheduler shows its own.

    {"berth": {"version": ..., "options": {...}, "logLevel": ..., "policies": [{"name": ..., "predicates": ...}]}}

Options are called as in a configuration file. A policy is shown as it decides: its base with its differences laid over.
What a record does not show when it is printed (`repr=False`) is a secret, such as the key of an extender, and is not
shown here either.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from berth import __version__
from berth.policy import Policy
from berth.serving import logs

HIDDEN = "(hidden)"
INTERNAL = ("origin", "own_name", "predicate_order")


def configuration(options: object, policies: Iterable[Policy]) -> dict[str, Any]:
    """Plain values only, nothing that other code still changes."""
    return {
        "berth": {
            "version": __version__,
            "options": _plain(options),
            "logLevel": logs.get_level(),
            "policies": [_plain(policy) for policy in sorted(policies, key=lambda policy: policy.name)],
        }
    }


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        shown = [field for field in fields(value) if field.name not in INTERNAL]
        return {camel_case(field.name): _field(getattr(value, field.name), field.repr) for field in shown}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _field(value: object, is_shown: bool) -> Any:
    return _plain(value) if is_shown or not value else HIDDEN


def camel_case(name: str) -> str:
    """`https_address` as `httpsAddress`."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
