"""Structural mutations by seed: a valid object with a few places of it made into something else."""

import copy
import random
from collections.abc import Iterator
from typing import Any

Place = tuple[Any, Any]  # a dict with a key of it, or a list with an index

DEPTH = 400


def _deep() -> Any:
    nested: Any = "bottom"
    for level in range(DEPTH):
        nested = {"a": nested} if level % 2 else [nested]
    return nested


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, -(2**31) - 1, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), float("-inf")),
    *("", " ", "\x00", "\n", "a" * 100_000, "\ud800", "\u202e\u2603\U0001f6a2", "../../x", "a/b", "%2e%2e", "*", "-"),
    *("0", "-1", "1e999", "9" * 5000, "1e-400", "0x10", "1_000", "\u0661\u0662", "1Ki1", "nan", "null", "1.5.5"),
    *("2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "now", "2026-01-01T00:00:00+99:00"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {"b": []}}, [1, "a", None, {}], {"\ud800": "\ud800"}, {"0": 0}),
    *(["a"] * 2000, [{"name": "a"}] * 500, {str(n): n for n in range(2000)}, _deep()),
)


def mutate(body: dict[str, Any], fate: random.Random) -> Any:
    """A copy of it with one to four mutations; now and then something that is no object at all."""
    if fate.random() < 0.005:
        return fate.choice(ODD_VALUES)
    mutated: Any = copy.deepcopy(body)
    for _ in range(fate.choice((1, 1, 2, 4))):
        places = list(_places(mutated))
        if places:
            _change(*fate.choice(places), fate)
    return mutated


def _places(value: Any, depth: int = 0) -> Iterator[Place]:
    if depth > 20:
        return
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key], depth + 1)
    elif isinstance(value, list):
        for index in range(min(len(value), 20)):
            yield value, index
            yield from _places(value[index], depth + 1)


def _change(owner: Any, key: Any, fate: random.Random) -> None:
    which = fate.random()
    if which < 0.6:
        owner[key] = copy.deepcopy(fate.choice(ODD_VALUES))
    elif which < 0.75:
        del owner[key]
    elif which < 0.85 and isinstance(owner, dict):
        owner[fate.choice(("", "x", "kind", "metadata", "name", "\ud800"))] = owner.pop(key)
    elif which < 0.95:
        owner[key] = [copy.deepcopy(owner[key])] if fate.random() < 0.5 else {"a": copy.deepcopy(owner[key])}
    elif isinstance(owner, list):
        owner.extend(copy.deepcopy(owner))
    else:
        owner[key] = _bent(owner[key], fate)


def _bent(value: Any, fate: random.Random) -> Any:
    """The same, slightly off."""
    if isinstance(value, str) and value:
        at = fate.randrange(len(value))
        return value[:at] + fate.choice(("", "\x00", "\u00e9", " ", value[at].swapcase(), "=")) + value[at + 1 :]
    if isinstance(value, bool) or not isinstance(value, int):
        return [value, value]
    return value + fate.choice((-1, 1, 2**31, -(2**40)))
