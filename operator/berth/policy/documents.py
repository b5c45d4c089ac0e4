"""Documents in the text of a file: JSON, or YAML with one document or several.

Stricter than YAML itself: a key that stands twice in a mapping is refused, as the API server and kube-scheduler do,
since one of the two values would be lost. Numbers are read as they read them, which differs from YAML (1e3 and 10.0 are
integers, 1:30 is text), and a date is text. Aliases that make a small file a huge document, or a value that contains
itself, are refused.
"""

import json
import re
from collections.abc import Container, Hashable, Iterator
from typing import Any

import yaml

from berth.policy.wording import show

LARGEST_DOCUMENT = 1_000_000  # values, each as often as aliases repeat it


class BadDocument(ValueError):
    """The text is not valid JSON or YAML; the message says where."""


def read_documents(text: str) -> Iterator[object]:
    """JSON first: where tabs indent it, it is no YAML. Raises `BadDocument`."""
    text = text.removeprefix("\ufeff")
    try:
        for document in _read(text):
            _check_texts(document)
            yield document
    except BadDocument:
        raise
    except yaml.YAMLError as error:
        raise BadDocument(f"is not YAML: {_describe(error)}") from error
    except RecursionError as error:
        raise BadDocument("is nested too deeply") from error
    except ValueError as error:  # such as a number with more digits than Python takes
        raise BadDocument(f"cannot be read: {error}") from error


def _read(text: str) -> Iterator[object]:
    if text.lstrip().startswith("{"):
        try:
            yield json.loads(text, object_pairs_hook=_each_once, parse_float=_number)
            return
        except json.JSONDecodeError:
            pass  # YAML may begin so, too
    yield from (document for document in yaml.load_all(text, _Loader) if document is not None)


def _check_texts(value: object) -> None:
    """Refuses half of a surrogate pair: it can be written as an escape, but cannot be printed or sent."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadDocument(f"{show(value)} has half of a surrogate pair in it, which is no character") from None
    elif isinstance(value, dict):
        for part in (*value, *value.values()):
            _check_texts(part)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)


def unwrapped(document: object, lists: Container[object]) -> Iterator[object]:
    """The objects in a document: those of a list, as `kubectl get` prints several, or the one that it is."""
    if isinstance(document, dict) and document.get("kind") in lists and isinstance(document.get("items"), list):
        yield from document["items"]
    else:
        yield document


def _describe(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    said = (getattr(error, "context", None), getattr(error, "problem", None))
    return f"line {mark.line + 1}, column {mark.column + 1}: {', '.join(text for text in said if text)}"


class _Loader(yaml.SafeLoader):
    def construct_document(self, node: yaml.Node) -> Any:
        if _size(node, {}) > LARGEST_DOCUMENT:
            raise BadDocument(f"line {node.start_mark.line + 1}: aliases make it too large a document")
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise BadDocument(f"line {key.start_mark.line + 1}: {show(key.value)} is there twice")
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        return _number(self.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))


def _size(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """How many values are in it; `known` has those that were counted, and 0 for what the node stands in."""
    if node not in known:
        known[node] = 0
        parts = [part for entry in node.value for part in entry] if isinstance(node, yaml.MappingNode) else node.value
        inner = () if isinstance(node, yaml.ScalarNode) else parts
        known[node] = 1 + sum(_size(part, known) for part in inner)
    elif not known[node]:
        raise BadDocument(f"line {node.start_mark.line + 1}: an alias puts it into itself")
    return known[node]


def _number(text: str) -> int | float:
    """One that has no fraction is written without one on the way to the API server."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_READ_OTHERWISE = (_INT, _FLOAT, "tag:yaml.org,2002:timestamp")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _READ_OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INT, re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"),
    list("-+.0123456789"),
)
_Loader.add_constructor(_FLOAT, _Loader.construct_number)


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise BadDocument(f"{show(key)} is there twice in one object")
        found[key] = value
    return found
