"""Readers of manifests that note what is wrong, with its path, and go on."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from berth.policy.records import NO_ARGS
from berth.policy.wording import cut, show

ARGS_MAX_DEPTH = 32

Note = Callable[[str, str], None]  # (field, message): one more problem


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


def read_args(value: object, where: str, note: Note) -> Mapping[str, object] | None:
    """Arguments as plugins get them, in a copy of our own; None where there are none."""
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
    """A copy of our own, so that nobody changes a policy that is in force; plain dicts and lists, as plugins read."""
    if value is None or isinstance(value, str | int | float | bool):
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
