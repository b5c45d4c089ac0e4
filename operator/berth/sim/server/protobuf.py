"""Request bodies in Kubernetes' protobuf, which kubectl and client-go send for built-in kinds.

    k8s\\0 | Unknown{1: TypeMeta{1: apiVersion, 2: kind}, 2: the object's message}

Only requests are read: a client that sends protobuf also accepts JSON, and gets that. The result is the JSON that the
client would have sent: a protobuf message has every field that is no pointer, be it empty, and JSON leaves most of
those out (`Field.omits_empty`). Unknown field numbers are skipped, as they are by a real server.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from berth.sim.builtin_kinds.api_fields import LIST, MAP, MESSAGE, Field, FieldTable, field_table
from berth.sim.errors import StatusError, bad_request

MAGIC: Final = b"k8s\0"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DEEPEST: Final = 64

Wire = int | bytes
"""The value of a field on the wire: a number, or the bytes of a text or a message."""


class _Malformed(Exception):
    """The bytes are no message."""


def decode_protobuf(raw: bytes) -> dict[str, Any]:
    """Returns the body as JSON would have it; raises StatusError."""
    try:
        if not raw.startswith(MAGIC):
            raise _Malformed("it does not begin with k8s")
        envelope = _last(raw[len(MAGIC) :])
        meta = _last(_bytes(envelope.get(1, b"")))
        api_version, kind = _text(meta.get(1, b"")), _text(meta.get(2, b""))
        table = field_table()
        message = table.message_of(api_version, kind)
        if message is None:
            raise _not_known(api_version, kind)
        return {"apiVersion": api_version, "kind": kind, **_message(table, message, _bytes(envelope.get(2, b"")), 0)}
    except (_Malformed, ValueError, OverflowError) as error:
        raise bad_request(f"the body of the request cannot be read as Kubernetes protobuf: {error}") from error


def _not_known(api_version: str, kind: str) -> StatusError:
    message = f"the embedded API server does not read {kind} of {api_version} in protobuf: send it as JSON"
    return StatusError(415, "UnsupportedMediaType", message)


# -- the wire ----------------------------------------------------------------------------------------------------------


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(raw):
            raise _Malformed("it ends in the middle of a number")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise _Malformed("a number is too long")


def _fields(raw: bytes) -> Iterator[tuple[int, Wire]]:
    """The fields of a message in the order of the wire."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(raw, at)
            yield number, value
            continue
        if wire == BYTES:
            size, at = _varint(raw, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise _Malformed(f"wire type {wire} is not used by Kubernetes")
        if at + size > len(raw):
            raise _Malformed("it ends in the middle of a field")
        yield number, raw[at : at + size]
        at += size


def _last(raw: bytes) -> dict[int, Wire]:
    return dict(_fields(raw))


def _bytes(value: Wire) -> bytes:
    if isinstance(value, int):
        raise _Malformed("a number stands where a text or a message belongs")
    return value


def _number(value: Wire) -> int:
    """A signed number: negative ones are written as 64 bits."""
    if not isinstance(value, int):
        raise _Malformed("a text stands where a number belongs")
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(value: Wire) -> str:
    return _bytes(value).decode()


# -- messages ----------------------------------------------------------------------------------------------------------


def _message(table: FieldTable, name: str, raw: bytes, depth: int) -> dict[str, Any]:
    if depth > DEEPEST:
        raise _Malformed("messages are nested too deeply")
    known = table.messages[name]
    body: dict[str, Any] = {}
    for number, wire in _fields(raw):
        field = known.get(number)
        if field is not None:
            _add(table, body, field, wire, depth)
    dropped = [field.name for field in known.values() if field.omits_empty and field.name and not body.get(field.name)]
    for key in dropped:
        body.pop(key, None)
    return {key: value for key, value in body.items() if value is not None}


def _add(table: FieldTable, body: dict[str, Any], field: Field, wire: Wire, depth: int) -> None:
    if not field.name:
        body |= _message(table, field.type.removeprefix(MESSAGE), _bytes(wire), depth + 1)
    elif field.type.startswith(LIST):
        body.setdefault(field.name, []).extend(_items(table, field.type.removeprefix(LIST), wire, depth))
    elif field.type.startswith(MAP):
        entry = _last(_bytes(wire))
        value = _value(table, field.type.removeprefix(MAP), entry.get(2, b""), depth)
        body.setdefault(field.name, {})[_text(entry.get(1, b""))] = value
    else:
        body[field.name] = _value(table, field.type, wire, depth)


def _items(table: FieldTable, type_: str, wire: Wire, depth: int) -> list[Any]:
    """One item, or several numbers in a row."""
    if type_ in ("int32", "int64") and isinstance(wire, bytes):
        return list(_packed(wire))
    return [_value(table, type_, wire, depth)]


def _packed(raw: bytes) -> Iterator[int]:
    at = 0
    while at < len(raw):
        value, at = _varint(raw, at)
        yield _number(value)


def _value(table: FieldTable, type_: str, wire: Wire, depth: int) -> Any:
    if not type_.startswith(MESSAGE):
        return _SCALARS[type_](wire)
    name = type_.removeprefix(MESSAGE)
    alone = table.messages[name].get(1)
    if alone is not None and not alone.name and alone.type.startswith(LIST):  # a list that is a message of its own
        return [_value(table, alone.type.removeprefix(LIST), item, depth) for _, item in _fields(_bytes(wire))]
    return _message(table, name, _bytes(wire), depth + 1)


# -- scalars -----------------------------------------------------------------------------------------------------------


def _moment(wire: Wire) -> datetime | None:
    """None for the time that Go calls zero."""
    parts = {number: _number(value) for number, value in _fields(_bytes(wire))}
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    return EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000) if seconds or nanos else None


def _time(wire: Wire) -> str | None:
    moment = _moment(wire)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(wire: Wire) -> str | None:
    moment = _moment(wire)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _int_or_string(wire: Wire) -> int | str:
    parts = _last(_bytes(wire))
    return _text(parts.get(3, b"")) if parts.get(1) else _number(parts.get(2, 0))


def _raw_json(wire: Wire) -> Any:
    raw = _bytes(_last(_bytes(wire)).get(1, b""))
    return orjson.loads(raw) if raw else None


_SCALARS: Final[Mapping[str, Callable[[Wire], Any]]] = {
    "string": _text,
    "bool": lambda wire: bool(_number(wire)),
    "int32": _number,
    "int64": _number,
    "bytes": lambda wire: base64.b64encode(_bytes(wire)).decode(),
    "Quantity": lambda wire: _text(_last(_bytes(wire)).get(1, b"")),
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _micro_time,
    "Raw": _raw_json,
}
