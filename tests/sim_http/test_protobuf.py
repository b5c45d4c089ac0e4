"""Protobuf bodies as Kubernetes' own serializer writes them (`make api-fields`), read by the embedded server."""

from __future__ import annotations

import base64
import contextlib
import gzip
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.sim.builtin_kinds.api_fields import field_table
from berth.sim.errors import StatusError
from berth.sim.server import SimServer
from berth.sim.server.protobuf import MAGIC, decode_protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"
BODIES = Path(__file__).with_name("protobuf_bodies.jsonl.gz")


def _bodies() -> list[tuple[str, dict[str, Any], bytes]]:
    """Kind, JSON and protobuf; of each kind an object without fields, then one with all."""
    lines = map(orjson.loads, gzip.decompress(BODIES.read_bytes()).splitlines())
    return [(line["kind"], line["json"], base64.b64decode(line["protobuf"])) for line in lines]


EVERY_BODY = _bodies()
FILLED = {kind: (json, raw) for kind, json, raw in EVERY_BODY}


def _without_nothing(value: Any) -> Any:
    """Without nulls and empty objects, which mean the same as nothing."""
    if isinstance(value, dict):
        kept = {key: _without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {})}
    return value


def test_there_is_a_body_of_every_kind_of_the_table() -> None:
    assert set(FILLED) == set(field_table().kinds)


@pytest.mark.parametrize("kind", sorted(FILLED))
def test_an_object_with_all_fields_is_read_as_its_json(kind: str) -> None:
    json, raw = FILLED[kind]
    assert decode_protobuf(raw) == json


@pytest.mark.parametrize(("kind", "json", "raw"), EVERY_BODY[::2], ids=[kind for kind, _, _ in EVERY_BODY[::2]])
def test_an_object_without_fields_is_read_as_its_json(kind: str, json: dict[str, Any], raw: bytes) -> None:
    assert _without_nothing(decode_protobuf(raw)) == _without_nothing(json)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_a_body_that_is_no_message_is_refused_or_skipped(noise: bytes, at: int) -> None:
    whole = FILLED["v1/ConfigMap"][1]
    for raw in (noise, MAGIC + noise, whole[:at], whole[:at] + noise + whole[at:]):
        with contextlib.suppress(StatusError):  # nothing else may be raised
            decode_protobuf(raw)


def test_a_kind_that_is_not_in_the_table_is_named() -> None:
    meta = b"\x0a\x0bexample.com/v1"[:2] + b"example/v1x" + b"\x12\x03Car"
    with pytest.raises(StatusError, match="does not read Car of example/v1x in protobuf: send it as JSON"):
        decode_protobuf(MAGIC + b"\x0a" + bytes([len(meta)]) + meta)


async def test_a_body_in_protobuf_creates_an_object(server: SimServer) -> None:
    meta = b"\x0a\x02v1\x12\x09ConfigMap"
    entry = b"\x0a\x01a\x12\x01b"
    message = b"\x0a\x0a\x0a\x08settings" + b"\x12" + bytes([len(entry)]) + entry
    raw = MAGIC + b"\x0a" + bytes([len(meta)]) + meta + b"\x12" + bytes([len(message)]) + message
    url = f"{server.url}/api/v1/namespaces/default/configmaps"
    headers = {"Content-Type": PROTOBUF, "Accept": f"{PROTOBUF},application/json"}
    async with aiohttp.ClientSession() as session, session.post(url, data=raw, headers=headers) as response:
        made = await response.json()
    assert response.status == 201
    assert (made["metadata"]["name"], made["data"]) == ("settings", {"a": "b"})
