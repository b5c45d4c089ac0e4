"""Readers of manifests that note each problem with its path, and go on."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from berth.policy.wording import cut, show

ARGS_MAX_DEPTH = 32
NO_ARGS: Mapping[str, object] = MappingProxyType({})
LARGEST = 2**63 - 1
EMPTY = "is empty: leave it out, or say something"
OBJECT_NAME_MAX_LENGTH = 253
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

C = TypeVar("C", bound=StrEnum)
Note = Callable[[str, str], None]  # (field, message): one more problem


def is_object_name(name: str) -> bool:
    """Whether the API server accepts it as the name of an object."""
    return len(name) <= OBJECT_NAME_MAX_LENGTH and _OBJECT_NAME.fullmatch(name) is not None


def read_mapping(value: object, where: str, note: Note) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    note(where, "is required" if value is None else f"{show(value)} is not a mapping")
    return NO_ARGS


def read_flag(value: object, where: str, note: Note, default: bool) -> bool:
    if isinstance(value, bool):
        return value
    note(where, f"{show(value)} is not true or false")
    return default


def read_choice(value: object, where: str, choices: type[C], note: Note, default: C) -> C:
    """Returns one of the values of an enumeration; the default if none is given."""
    if value is None:
        return default
    for choice in choices:
        if value == choice.value:
            return choice
    note(where, f"{show(value)} is not one of {', '.join(choice.value for choice in choices)}")
    return default


def read_whole(value: object, where: str, low: int, high: int, note: Note) -> int | None:
    """Returns an integer from low to high; None if it is missing or invalid."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        note(where, f"{show(value)} is not a whole number")
    elif not low <= value <= high:
        note(where, f"{show(value)} is not from {low} to {high}")
    else:
        return value
    return None


def read_number(value: object, where: str, low: float, high: float, note: Note) -> float | None:
    """Returns a number from low to high; None if it is missing or invalid."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        note(where, f"{show(value)} is not a number")
    elif not low <= value <= high:
        note(where, f"{show(value)} is not from {low:g} to {high:g}")
    else:
        return float(value)
    return None


def read_text(value: object, where: str, longest: int, note: Note) -> str | None:
    """Returns a text that is not empty; None if it is missing or invalid."""
    if value is None:
        return None
    if not isinstance(value, str):
        note(where, f"{show(value)} is not a text")
    elif not value.strip():
        note(where, EMPTY)
    elif len(value) > longest:
        note(where, f"has {len(value)} characters, may have {longest}")
    else:
        return value
    return None


def read_list(value: object, where: str, most: int, note: Note, what: str = "entries") -> Sequence[object]:
    """Returns the items of a list; empty if it is missing or invalid."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        note(where, f"{show(value)} is not a list")
    elif len(value) > most:
        note(where, f"has {len(value)} {what}, may have {most}")
    else:
        return value
    return ()


def read_optional(value: object, where: str, known: tuple[str, ...], note: Note) -> Mapping[str, object]:
    """Returns a mapping with fields of these names; empty if it is missing or invalid."""
    if value is None:
        return NO_ARGS
    body = read_mapping(value, where, note)
    refuse_unknown(body, known, where, note)
    return body


def read_args(value: object, where: str, note: Note) -> Mapping[str, object] | None:
    """Returns a copy of the arguments, as plugins get them; None if there are none."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        note(where, f"{show(value)} is not a mapping of arguments")
        return None
    try:
        copied = _copy_json(value, where, ARGS_MAX_DEPTH)
    except _NotJson as error:
        note(error.where, error.message)
        return None
    assert isinstance(copied, dict)
    return MappingProxyType(copied)


def refuse_unknown(body: Mapping[str, object], known: tuple[str, ...], where: str, note: Note) -> None:
    for key in body:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"; known are {', '.join(known)}"
            note(f"{where}.{cut(str(key))}", f"unknown field{hint}")


def did_you_mean(given: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(given[:253], list(choices), n=1)
    return f"; did you mean {close[0]}?" if close else ""


class _NotJson(Exception):
    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where
        self.message = message


def _copy_json(value: object, where: str, depth: int) -> object:
    """Returns a copy in plain dicts and lists, so that nothing changes a policy in force."""
    if isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
        raise _NotJson(where, "is a number of more than 64 bits; put it in quotes if text is meant")
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth == 0:
        raise _NotJson(where, f"is nested deeper than {ARGS_MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_key(key, where): _copy_json(item, f"{where}.{key}", depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy_json(item, f"{where}[{index}]", depth - 1) for index, item in enumerate(value)]
    raise _NotJson(where, f"{show(value)} is not a JSON value; put it in quotes if text is meant")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise _NotJson(where, f"{show(key)} is not a text key; put it in quotes")
    return key
