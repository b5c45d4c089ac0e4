"""Values of expressions: what Python has no type for, equality, order and the names of types.

int, bool, str, float, bytes, None, list and dict are themselves; a map of domains is `Domains`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Any, Final

MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1


class EvaluationError(Exception):
    """An evaluation without a result; the text says why."""


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class Domains(dict[str, Any]):
    """The attributes or capacities of a device by domain; a domain that the device lacks is empty.

    Only looking up is different: `in`, sizes and loops see the domains that are there.
    """

    __slots__ = ()


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount in nano units."""

    nanos: int

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; equality and order do not see what comes after "+"."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[tuple[bool, int | str], ...]

    def _order(self) -> tuple[Any, ...]:
        return (self.major, self.minor, self.patch, not self.prerelease, self.prerelease)

    def __lt__(self, other: Semver) -> bool:
        return self._order() < other._order()


@dataclass(frozen=True, slots=True)
class IP:
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class CIDR:
    """A network with the address that it was written with, whose host bits may be set."""

    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class URL:
    scheme: str
    host: str
    path: str
    query: Mapping[str, list[str]]
    text: str


@dataclass(frozen=True, slots=True)
class Format:
    """A named format, and which texts it accepts."""

    name: str
    accepts: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    there: bool
    value: Any = None


@total_ordering
@dataclass(frozen=True, slots=True)
class Duration:
    nanos: int

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos


@total_ordering
@dataclass(frozen=True, slots=True)
class Timestamp:
    """Nanoseconds since 1970."""

    nanos: int

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value."""

    name: str


NONE: Final = Optional(False)

KINDS: Final[Mapping[type, str]] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null_type",
    list: "list", dict: "map", Domains: "map", Quantity: "kubernetes.Quantity", Semver: "kubernetes.Semver",
    IP: "net.IP", CIDR: "net.CIDR", URL: "kubernetes.URL", Format: "kubernetes.NamedFormat",
    Optional: "optional_type", Duration: "google.protobuf.Duration", Timestamp: "google.protobuf.Timestamp",
    TypeName: "type",
}  # fmt: skip
NUMBERS: Final = frozenset({"int", "uint", "double"})
# Values of these types compare only with their own: anything else is an error, not "different".
_STRICT: Final = (Quantity, Semver, IP, CIDR, URL, Format)


def kind_of(value: Any) -> str:
    """The name of a value's type."""
    return KINDS[type(value)]


def equal(left: Any, right: Any) -> bool:
    """Equality of CEL: numbers by value, values of different types are different."""
    if isinstance(left, _STRICT) and type(left) is not type(right) and right is not None:
        raise EvaluationError("no such overload")
    one, other = kind_of(left), kind_of(right)
    if one != other:
        return one in NUMBERS and other in NUMBERS and bool(left == right)
    if one == "list":
        return len(left) == len(right) and all(map(equal, left, right))
    if one == "map":
        return len(left) == len(right) and all(key in right and equal(left[key], right[key]) for key in left)
    return bool(left == right)


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1; raises EvaluationError for values without an order."""
    one, other = kind_of(left), kind_of(right)
    if (one == other and one in _ORDERED) or (one in NUMBERS and other in NUMBERS):
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
        return int(left > right) - int(left < right)
    raise EvaluationError("no such overload")


_ORDERED: Final = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp"}
)


@lru_cache(maxsize=1024)
def parse_semver(text: str) -> Semver:
    """A semantic version; raises EvaluationError with the words of the library that Kubernetes reads them with."""
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    patch, build, pre = parts[2], [], []
    if "+" in patch:
        patch, meta = patch.split("+", 1)
        build = meta.split(".")
    if "-" in patch:
        patch, before = patch.split("-", 1)
        pre = before.split(".")
    major, minor, patched = _number("major", parts[0]), _number("minor", parts[1]), _number("patch", patch)
    releases = tuple(map(_prerelease, pre))
    for part in build:
        if not part:
            raise EvaluationError("Build meta data is empty")
        if not _is_identifier(part):
            raise EvaluationError(f'Invalid character(s) found in build meta data "{part}"')
    return Semver(major, minor, patched, releases)


def normalised_semver(text: str) -> Semver:
    """The same for versions with a "v", without all numbers or with leading zeros."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdigit() and stripped[:1].isascii() else "0" + stripped


def _number(name: str, part: str) -> int:
    if not (part.isascii() and part.isdigit()):
        if name == "patch" and not part:
            raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
        words = f'Invalid character(s) found in {name} number "{part}"'
        raise EvaluationError(words if part else 'strconv.ParseUint: parsing "": invalid syntax')
    if len(part) > 1 and part[0] == "0":
        raise EvaluationError(f'{name.capitalize()} number must not contain leading zeroes "{part}"')
    if int(part) > MAX_UINT:
        raise EvaluationError(f'strconv.ParseUint: parsing "{part}": value out of range')
    return int(part)


def _prerelease(part: str) -> tuple[bool, int | str]:
    if not part:
        raise EvaluationError("Prerelease is empty")
    if part.isascii() and part.isdigit():
        if len(part) > 1 and part[0] == "0":
            raise EvaluationError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
        return False, int(part)
    if not _is_identifier(part):
        raise EvaluationError(f'Invalid character(s) found in prerelease "{part}"')
    return True, part


def _is_identifier(part: str) -> bool:
    return re.fullmatch(r"[0-9A-Za-z-]+", part) is not None
