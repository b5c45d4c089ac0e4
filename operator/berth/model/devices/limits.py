"""Limits of the API for the lists and maps of resource.k8s.io, and readers that enforce them.

The API server refuses what is longer, so a longer list is not what this version understands. What is already given
away (the results in a claim's status) has no limit here: a device that is in use must count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ..fields import Body, FieldError, as_object, describe, read_list, read_object, read_texts

T = TypeVar("T")

MOST_DEVICES: Final = 128
MOST_COMPLEX_DEVICES: Final = 64  # if a device of the slice has taints or consumes counters
MOST_ATTRIBUTES: Final = 32  # attributes and capacities of a device, together
MOST_COUNTER_SETS: Final = 8
MOST_COUNTERS: Final = 32  # of one set
MOST_CONSUMED_SETS: Final = 2
MOST_TAINTS: Final = 16
MOST_BINDING_CONDITIONS: Final = 4  # of either kind
MOST_VALID_VALUES: Final = 10
MOST_REQUESTS: Final = 32
MOST_SUBREQUESTS: Final = 8
MOST_SELECTORS: Final = 32
MOST_CONSTRAINTS: Final = 32
MOST_CONFIGURATIONS: Final = 32
MOST_TOLERATIONS: Final = 16
MOST_RESULTS: Final = 32  # devices of one claim
LONGEST_EXPRESSION: Final = 10 * 1024


def read_limited(owner: Body, name: str, build: Callable[[Body], T], most: int) -> tuple[T, ...]:
    """The results of `build` for each object of a list that has at most so many."""
    _check_length(owner, name, most)
    return read_list(owner, name, build)


def read_limited_texts(owner: Body, name: str, most: int) -> tuple[str, ...]:
    """A list of at most so many strings."""
    _check_length(owner, name, most)
    return read_texts(owner, name)


def read_limited_map(owner: Body, name: str, build: Callable[[Body], T], most: int) -> Mapping[str, T]:
    """The results of `build` for each object of a map that has at most so many."""
    _check_length(owner, name, most)
    built: dict[str, T] = {}
    for key, value in read_object(owner, name).items():
        if not isinstance(key, str):
            raise FieldError(name, f"{describe(key)} is not a string")
        try:
            built[key] = build(as_object(value))
        except FieldError as error:
            raise error.within(f"{name}.{key}") from None
    return built


def _check_length(owner: Body, name: str, most: int) -> None:
    found: Any = owner.get(name)
    if isinstance(found, list | tuple | Mapping) and len(found) > most:
        raise FieldError(name, f"has {len(found):,} entries, and may have {most:,}")
