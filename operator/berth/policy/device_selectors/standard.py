"""The standard functions and operators of CEL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from .overloads import Library
from .regular import matches
from .values import (
    CIDR,
    IP,
    KINDS,
    MAX_INT,
    MAX_UINT,
    Duration,
    EvaluationError,
    Timestamp,
    TypeName,
    Uint,
    compare,
    equal,
    kind_of,
)

SECOND: Final = 10**9
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_DURATION: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|ms|s|m|h)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OVERFLOW: Final = "integer overflow"


def add_standard(library: Library) -> None:
    """All that CEL itself has."""
    _add_arithmetic(library)
    _add_relations(library)
    _add_conversions(library)
    _add_times(library)
    for kind in ("string", "bytes", "list", "map"):
        library.add("size", kind, "int", len)
        library.method("size", kind, "int", len)
    library.method("contains", "string string", "bool", lambda text, part: part in text)
    library.method("startsWith", "string string", "bool", str.startswith)
    library.method("endsWith", "string string", "bool", str.endswith)
    library.method("matches", "string string", "bool", matches)
    library.add("matches", "string string", "bool", matches)


# --- operators


def _add_arithmetic(library: Library) -> None:
    for name, run in (("_+_", lambda a, b: a + b), ("_-_", lambda a, b: a - b), ("_*_", lambda a, b: a * b)):
        library.add(name, "int int", "int", _within_int(run))
        library.add(name, "uint uint", "uint", _within_uint(run))
        library.add(name, "double double", "double", run)
    library.add("_/_", "int int", "int", _within_int(_divided))
    library.add("_/_", "uint uint", "uint", _within_uint(_divided))
    library.add("_/_", "double double", "double", _divided_double)
    library.add("_%_", "int int", "int", _within_int(_remainder))
    library.add("_%_", "uint uint", "uint", _within_uint(_remainder))
    library.add("-_", "int", "int", _within_int(lambda a: -a))
    library.add("-_", "double", "double", lambda a: -a)
    library.add("!_", "bool", "bool", lambda a: not a)
    for kind in ("string", "bytes"):
        library.add("_+_", f"{kind} {kind}", kind, lambda a, b: a + b)
    library.add("_+_", "list list", "list", lambda a, b: [*a, *b])


def _add_relations(library: Library) -> None:
    tests: list[tuple[str, Callable[[int], bool]]] = [
        ("_<_", lambda order: order < 0),
        ("_<=_", lambda order: order <= 0),
        ("_>_", lambda order: order > 0),
        ("_>=_", lambda order: order >= 0),
    ]
    numbers = ("int", "uint", "double")
    same = ("bool", "string", "bytes", "google.protobuf.Timestamp", "google.protobuf.Duration")
    for name, test in tests:
        run = _ordered(test)
        for one in numbers:
            for other in numbers:
                library.add(name, f"{one} {other}", "bool", run)
        for kind in same:
            library.add(name, f"{kind} {kind}", "bool", run)
    library.add("_==_", "dyn dyn", "bool", equal)
    library.add("_!=_", "dyn dyn", "bool", _differs)
    library.add("@in", "dyn list", "bool", lambda item, items: any(equal(each, item) for each in items))
    library.add("@in", "dyn map", "bool", lambda key, entries: isinstance(key, Hashable) and key in entries)


def _differs(left: Any, right: Any) -> bool:
    """Values that cannot be compared are different; asked whether they are equal, they are an error."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def _ordered(test: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    def run(left: Any, right: Any) -> bool:
        if left != left or right != right:  # no order for NaN: every comparison is false
            raise EvaluationError("NaN values cannot be ordered")
        return test(compare(left, right))

    return run


def _within_int(run: Callable[..., int]) -> Callable[..., int]:
    def checked(*args: int) -> int:
        number = run(*args)
        if not -MAX_INT - 1 <= number <= MAX_INT:
            raise EvaluationError(_OVERFLOW)
        return number

    return checked


def _within_uint(run: Callable[..., int]) -> Callable[..., Uint]:
    def checked(*args: int) -> Uint:
        number = run(*map(int, args))
        if not 0 <= number <= MAX_UINT:
            raise EvaluationError("unsigned integer overflow")
        return Uint(number)

    return checked


def _divided(a: int, b: int) -> int:
    """Towards zero, as Go does."""
    if b == 0:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("modulus by zero")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def _divided_double(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


# --- conversions


def _add_conversions(library: Library) -> None:
    for name, convert, kinds in (
        ("int", _to_int, ("int", "uint", "double", "string", "google.protobuf.Timestamp", "google.protobuf.Duration")),
        ("uint", _to_uint, ("int", "uint", "double", "string")),
        ("double", _to_double, ("int", "uint", "double", "string")),
        ("string", to_string, ("bool", "int", "uint", "double", "string", "bytes", "google.protobuf.Timestamp",
                               "google.protobuf.Duration", "net.IP", "net.CIDR")),
        ("bytes", lambda value: value if isinstance(value, bytes) else value.encode(), ("string", "bytes")),
        ("bool", _to_bool, ("bool", "string")),
    ):  # fmt: skip
        for kind in kinds:
            library.add(name, kind, name, convert)
    library.add("dyn", "dyn", "dyn", lambda value: value)
    library.add("type", "dyn", "type", lambda value: TypeName(kind_of(value)))


def _to_int(value: Any) -> int:
    match value:
        case Timestamp():
            return value.nanos // SECOND
        case Duration():
            return value.nanos
        case float():
            if value != value or not -MAX_INT - 1 < value < MAX_INT:
                raise EvaluationError(_OVERFLOW)
            return int(value)
        case str():
            if not re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII):
                raise EvaluationError("type conversion error from 'string' to 'int'")
            if not -MAX_INT - 1 <= int(value) <= MAX_INT:
                raise EvaluationError("type conversion error from 'string' to 'int'")
            return int(value)
    if value > MAX_INT:
        raise EvaluationError(_OVERFLOW)
    return int(value)


def _to_uint(value: Any) -> Uint:
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+", value, re.ASCII):
            raise EvaluationError("type conversion error from 'string' to 'uint'")
        value = int(value)
    if value != value or not 0 <= value <= MAX_UINT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'double'") from None


def _to_bool(value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "True", "TRUE", "t", "T", "1"):
        return True
    if value in ("false", "False", "FALSE", "f", "F", "0"):
        return False
    raise EvaluationError("type conversion error from 'string' to 'bool'")


def to_string(value: Any) -> str:
    """string(value), as Go prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _double_text(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case Timestamp():
            return _timestamp_text(value)
        case Duration():
            return _duration_text(value)
        case IP():
            return str(value.address)
        case CIDR():
            return str(value.interface)
    return str(value)


def _double_text(value: float) -> str:
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits, _, exponent = f"{value!r}".partition("e")
    order = int(exponent) if exponent else len(digits.lstrip("-").split(".")[0].lstrip("0")) - 1
    if not exponent and abs(value) < 1:
        fraction = digits.split(".")[1]
        order = -(len(fraction) - len(fraction.lstrip("0")) + 1)
    if -4 <= order < 6:
        plain = f"{value:f}" if exponent else digits
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    mantissa = digits.lstrip("-").replace(".", "").strip("0") or "0"
    head = mantissa[0] + ("." + mantissa[1:] if len(mantissa) > 1 else "")
    return f"{'-' if value < 0 else ''}{head}e{'-' if order < 0 else '+'}{abs(order):02d}"


# --- times


def _add_times(library: Library) -> None:
    stamp, span = "google.protobuf.Timestamp", "google.protobuf.Duration"
    library.add("timestamp", "string", stamp, _parse_timestamp)
    library.add("timestamp", "int", stamp, lambda seconds: _in_range(seconds * SECOND))
    library.add("timestamp", stamp, stamp, lambda value: value)
    library.add("duration", "string", span, _parse_duration)
    library.add("duration", span, span, lambda value: value)
    library.add("_+_", f"{stamp} {span}", stamp, lambda a, b: _in_range(a.nanos + b.nanos))
    library.add("_+_", f"{span} {stamp}", stamp, lambda a, b: _in_range(a.nanos + b.nanos))
    library.add("_+_", f"{span} {span}", span, lambda a, b: _span(a.nanos + b.nanos))
    library.add("_-_", f"{stamp} {span}", stamp, lambda a, b: _in_range(a.nanos - b.nanos))
    library.add("_-_", f"{stamp} {stamp}", span, lambda a, b: _span(a.nanos - b.nanos))
    library.add("_-_", f"{span} {span}", span, lambda a, b: _span(a.nanos - b.nanos))
    for name, read in _PARTS.items():
        library.method(name, stamp, "int", _part(read))
        library.method(name, f"{stamp} string", "int", _part(read))
    for name, unit in (("getHours", 3600), ("getMinutes", 60), ("getSeconds", 1)):
        library.method(name, span, "int", lambda value, unit=unit: _divided(value.nanos, unit * SECOND))
    library.method("getMilliseconds", span, "int", lambda value: _divided(value.nanos, 10**6))


_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def run(stamp: Timestamp, zone: str = "UTC") -> int:
        return read((_EPOCH + timedelta(microseconds=stamp.nanos // 1000)).astimezone(_zone(zone)))

    return run


def _zone(name: str) -> Any:
    if found := re.fullmatch(r"([+-]?)([0-9]{2}):([0-9]{2})", name):
        sign = -1 if found[1] == "-" else 1
        from datetime import timezone

        return timezone(sign * timedelta(hours=int(found[2]), minutes=int(found[3])))
    try:
        return ZoneInfo(name)
    except Exception:
        raise EvaluationError(f"unknown time zone {name}") from None


def _in_range(nanos: int) -> Timestamp:
    if not -62135596800 <= nanos // SECOND <= 253402300799:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos)


def _span(nanos: int) -> Duration:
    if not -MAX_INT - 1 <= nanos <= MAX_INT:
        raise EvaluationError("duration overflow")
    return Duration(nanos)


def _parse_timestamp(text: str) -> Timestamp:
    found = re.fullmatch(
        r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?(Z|[+-]\d{2}:\d{2})", text, re.ASCII
    )
    try:
        if found is None:
            raise ValueError
        zone = "+00:00" if found[4] == "Z" else found[4]
        whole = datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}") - _EPOCH
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None
    return _in_range((whole.days * 86400 + whole.seconds) * SECOND + int((found[3] or "0").ljust(9, "0")))


def _parse_duration(text: str) -> Duration:
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    total, at = 0, 0
    while at < len(rest):
        found = _DURATION.match(rest, at)
        if found is None or not (found[1] or found[2]):
            raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
        unit = _UNITS[found[3]]
        total += int(found[1] or 0) * unit
        if found[2]:
            total += int(found[2]) * unit // 10 ** len(found[2])
        at = found.end()
    if not rest or total > MAX_INT:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(sign * total)


def _duration_text(value: Duration) -> str:
    """As seconds, which is how the API writes them."""
    seconds = value.nanos / SECOND
    return f"{_double_text(seconds)}s"


def _timestamp_text(value: Timestamp) -> str:
    at = _EPOCH + timedelta(seconds=value.nanos // SECOND)
    fraction = f".{value.nanos % SECOND:09d}".rstrip("0") if value.nanos % SECOND else ""
    return at.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


TYPES: Final = frozenset(KINDS.values())
