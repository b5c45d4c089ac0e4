"""Quantities ("100m", "1.5Gi", "2e9") exactly as Kubernetes reads them, without floats.

A quantity is an integer of nano units: Kubernetes keeps nine decimal places and rounds anything finer away from zero.
So nothing is lost, sums are exact, and rounding to whole units or thousandths happens once, at the end (`to_value`,
`to_milli`).

Grammar: sign, digits with at most one point, then a decimal suffix (n u m k M G T P E), a binary one (Ki Mi Gi Ti Pi
Ei) or a decimal exponent (e3, E-3; a lone E is exa). Kubernetes accepts missing digits: "5.", ".5" and even "." or "m"
(the latter as zero), and so does this module.

Values beyond 64 bits are capped. Kubernetes itself caps binary suffixes only and lets others overflow, so that a node
with 1e30 of something has none of it; that part is not reproduced.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NANO: Final = 10**9
MAX_INT64: Final = 2**63 - 1
MAX_NANOS: Final = MAX_INT64 * NANO

_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SHAPE: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([a-zA-Z]*)([+-]?[0-9]*)", re.ASCII)


def parse_quantity(text: object) -> int:
    """A quantity in nano units; ValueError for what Kubernetes rejects.

    JSON numbers are accepted too: Kubernetes reads their text. The text of a float is its shortest representation,
    which is the original one unless that had more than 15 digits.
    """
    if isinstance(text, str):
        return _parse(text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise ValueError("not a quantity")
    if isinstance(text, int):
        return _cap(text * NANO)
    return _parse(repr(text))


@lru_cache(maxsize=8192)
def to_value(nanos: int) -> int:
    """Whole units, rounded away from zero, within 64 bits."""
    return _round(nanos, NANO)


@lru_cache(maxsize=8192)
def to_milli(nanos: int) -> int:
    """Thousandths, rounded away from zero, within 64 bits."""
    return _round(nanos, NANO // 1000)


def _round(nanos: int, unit: int) -> int:
    if nanos < 0:
        return max(nanos // unit, -MAX_INT64)
    return min(-(-nanos // unit), MAX_INT64)


def _cap(nanos: int) -> int:
    return max(-MAX_NANOS, min(nanos, MAX_NANOS))


# A cluster writes a few hundred different quantities, millions of times.
@lru_cache(maxsize=8192)
def _parse(text: str) -> int:
    stripped = text.strip()
    shape = _SHAPE.fullmatch(stripped)
    if shape is None or not stripped:
        raise ValueError(f"{text[:60]!r} is not a quantity")
    sign, whole, fraction, suffix, exponent_text = shape.groups(default="")
    if suffix in _BINARY and not exponent_text:
        power, exponent = _BINARY[suffix], 0
    else:
        power, exponent = 0, _decimal_exponent(suffix, exponent_text)
    if not whole and not fraction and (power >= 50 or exponent < -9):
        # Kubernetes' parser has two paths that differ on a number without digits; these take the one that rejects it.
        raise ValueError(f"{text[:60]!r} is not a quantity")
    magnitude = _scale(int(whole + fraction or "0") << power, exponent - len(fraction) + 9)
    return _cap(-magnitude if sign == "-" else magnitude)


def _decimal_exponent(suffix: str, exponent_text: str) -> int:
    if not exponent_text and suffix in _DECIMAL:
        return _DECIMAL[suffix]
    if suffix not in ("e", "E") or exponent_text in ("", "+", "-"):
        raise ValueError("unknown suffix")
    if len(exponent_text) > 20 or abs(int(exponent_text)) > MAX_INT64:
        raise ValueError("exponent out of range")
    # Kubernetes keeps the exponent in 32 bits.
    return (int(exponent_text) + 2**31) % 2**32 - 2**31


def _scale(digits: int, exponent: int) -> int:
    """digits * 10**exponent, rounded up to an integer; not exact far beyond 64 bits, since the result is capped."""
    if digits == 0:
        return 0
    if exponent >= 0:
        return digits * _power_of_ten(min(exponent, 40))
    if exponent < -5000:
        return 1
    return -(-digits // _power_of_ten(-exponent))


def _power_of_ten(exponent: int) -> int:
    power: int = 10**exponent
    return power
