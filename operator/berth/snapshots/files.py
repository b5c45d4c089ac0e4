"""Snapshots in files: a List of objects as `kubectl get -o json|yaml` prints one, packed if the name ends in .gz."""

import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from berth.policy.documents import BadDocument, read_documents

Body = Mapping[str, Any]

TAKEN: Final = "berth.dev/snapshot-taken"
YAML_ENDINGS: Final = (".yaml", ".yml")


class BadSnapshot(Exception):
    """The file cannot be read as a snapshot; the message says why."""


def render(items: Iterable[Body], taken: datetime, *, as_yaml: bool = False) -> bytes:
    """Returns the snapshot as it is written."""
    body = {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"annotations": {TAKEN: taken.strftime("%Y-%m-%dT%H:%M:%SZ")}},
        "items": list(items),
    }
    if as_yaml:
        text: str = yaml.safe_dump(body, sort_keys=False, width=120)
        return text.encode()
    return orjson.dumps(body) + b"\n"


def write_file(path: str, text: bytes) -> None:
    """Writes the text, packed if the name says so; "-" is standard output. Raises OSError."""
    if path == "-":
        sys.stdout.buffer.write(text)
    elif path.endswith(".gz"):
        with gzip.open(path, "wb") as packed:
            packed.write(text)
    else:
        Path(path).write_bytes(text)


def is_yaml(path: str) -> bool:
    """Whether the name of the file asks for YAML."""
    return path.removesuffix(".gz").endswith(YAML_ENDINGS)


def read_file(path: str) -> list[Body]:
    """Returns the objects of a snapshot, or of any file that kubectl wrote ("-": standard input).

    Raises BadSnapshot.
    """
    try:
        text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
    except (OSError, EOFError, zlib.error) as error:
        raise BadSnapshot(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        found = [item for document in _documents(text) for item in _unwrapped(document)]
    except (BadDocument, UnicodeDecodeError) as error:
        raise BadSnapshot(f"{path}: {error}") from error
    for item in found:
        if not isinstance(item, Mapping) or not isinstance(item.get("kind"), str):
            raise BadSnapshot(f"{path}: holds something that is no object: each has apiVersion, kind and metadata")
    if not found:
        raise BadSnapshot(f"{path}: has no object in it")
    return [item for item in found if isinstance(item, Mapping)]


def _unwrapped(document: object) -> list[object]:
    """Returns the objects of a list of any kind, or the one object that the document is."""
    if isinstance(document, Mapping) and str(document.get("kind")).endswith("List"):
        items = document.get("items")
        if isinstance(items, list):
            kind = str(document["kind"]).removesuffix("List")  # items of a typed list do not repeat it
            common = {"apiVersion": document.get("apiVersion"), "kind": kind}
            return [{**common, **item} if kind and isinstance(item, Mapping) else item for item in items]
    return [document]


def _documents(text: bytes) -> Iterable[object]:
    """JSON first, by the fast reader: a snapshot of a large cluster has hundreds of megabytes."""
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        return _json_documents(text.decode()) or read_documents(text.decode())


def _json_documents(text: str) -> list[object]:
    """Returns JSON documents that follow one another; none if it is something else, such as YAML that begins so."""
    decoder, found = json.JSONDecoder(), list[object]()
    at, end = 0, len(text.rstrip())
    try:
        while at < end:
            while text[at].isspace():
                at += 1
            document, at = decoder.raw_decode(text, at)
            found.append(document)
    except ValueError:
        return []
    return found
