"""API objects in files: a snapshot, the output of `kubectl get -o json|yaml`, or manifests that people write."""

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import orjson

from berth.model import object_key
from berth.policy.documents import BadDocument, read_documents
from berth.policy.fields.spec_fields import KIND as POLICY
from berth.policy.wording import on_one_line
from berth.shipped import policy_path
from berth.whatif.cluster_objects import Body, ClusterObjects
from berth.whatif.errors import CannotSimulate


def read_bodies(path: str) -> Iterator[Body]:
    """Yields the objects of a file (.gz too; "-": standard input), those of lists one by one. Raises CannotSimulate."""
    name = "standard input" if path == "-" else on_one_line(path)
    found = 0
    for document in _documents(path, name):
        for body in _unwrapped(document):
            if not isinstance(body, Mapping):
                raise CannotSimulate(f"{name}: holds something that is no API object: each has apiVersion and kind")
            found += 1
            yield body
    if not found:
        raise CannotSimulate(f"{name}: has no object in it")


def read_files(paths: Iterable[str], tell: Callable[[str], None]) -> ClusterObjects:
    """Returns the cluster whose objects are in these files. Raises CannotSimulate. `tell`: which one is read."""
    objects = ClusterObjects()
    for path in paths:
        tell(f"reading {on_one_line(path)}")
        for body in read_bodies(path):
            objects.take(body)
    return objects


def read_policies(path: str) -> Iterator[Body]:
    """Yields the SchedulingPolicies of a file that has nothing else in it, or of the library. Raises CannotSimulate."""
    for body in read_bodies(policy_path(path)):
        if body.get("kind") != POLICY or not isinstance(body.get("metadata"), Mapping):
            named = f"{body.get('kind')} {object_key(body)}"
            raise CannotSimulate(f"--policy {on_one_line(path)}: {named} is no SchedulingPolicy: give it with -f")
        yield body


def _documents(path: str, name: str) -> list[object]:
    try:
        text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        if path.endswith(".gz"):
            text = gzip.decompress(text)
    except (OSError, EOFError, zlib.error) as error:
        raise CannotSimulate(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        return _parsed(text)
    except (BadDocument, UnicodeDecodeError) as error:
        raise CannotSimulate(f"{name}: {error}") from error


def _parsed(text: bytes) -> list[object]:
    """A snapshot of a large cluster is JSON of hundreds of megabytes, which the reader of manifests is too slow for."""
    if text.lstrip()[:1] == b"{":
        try:
            return [orjson.loads(text)]
        except orjson.JSONDecodeError:
            several = _json_documents(text.decode("utf-8"))
            if several is not None:
                return several
    return list(read_documents(text.decode("utf-8")))


def _json_documents(text: str) -> list[object] | None:
    """Returns JSON documents that follow one another; None if it is something else, such as YAML that begins so."""
    decoder, found = json.JSONDecoder(), list[object]()
    at, end = 0, len(text.rstrip())
    try:
        while at < end:
            while text[at].isspace():
                at += 1
            document, at = decoder.raw_decode(text, at)
            found.append(document)
    except ValueError:
        return None
    return found


def _unwrapped(document: object) -> Iterator[object]:
    """The items of a list as the API server writes it have neither kind nor apiVersion: the list has them."""
    items = document.get("items") if isinstance(document, Mapping) else None
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(items, list) or not str(kind).endswith("List"):
        yield document
        return
    common = {"apiVersion": document.get("apiVersion"), "kind": str(kind).removesuffix("List")}
    for item in items:
        yield {**common, **item} if isinstance(item, Mapping) and kind != "List" else item
