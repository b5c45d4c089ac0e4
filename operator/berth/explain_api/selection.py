"""Label and field selectors: the text of a query becomes a test.

labelSelector   app=web, tier in (front, back), !canary, weight>3       labels of the pod or node
fieldSelector   metadata.name=web-7d, status.reason!=InsufficientCPU    the fields that discovery's table names
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from berth.explain_api.port import Body
from berth.explain_api.resources import ApiResource
from berth.explain_api.statuses import bad_request
from berth.model.label_selectors import SelectorError, parse_label_selector

NAME = "metadata.name"
LONGEST_SELECTOR = 4096
_TERM = re.compile(r"([^=!]+)(!=|==|=)(.*)", re.DOTALL)


def label_test(text: str) -> Callable[[Mapping[str, str]], bool] | None:
    """Returns the test on labels; None for an empty selector. Raises ApiRefusal."""
    if not text.strip():
        return None
    try:
        return parse_label_selector(_checked(text)).matches
    except SelectorError as error:
        raise bad_request(str(error)) from None


class FieldTerms:
    """The terms of a field selector; all must hold."""

    def __init__(self, text: str, resource: ApiResource) -> None:
        """Raises ApiRefusal."""
        terms = [term for term in re.split(r"(?<!\\),", _checked(text)) if term]
        self._terms = [_read_term(term, resource) for term in terms]

    def __bool__(self) -> bool:
        return bool(self._terms)

    def value_of(self, path: str) -> str | None:
        """Returns the value that the field has to have; None if it may have several."""
        return next((value for field, wanted, value in self._terms if field == path and wanted), None)

    def match(self, body: Body) -> bool:
        return all((_text_at(body, path) == value) is wanted for path, wanted, value in self._terms)


def _checked(text: str) -> str:
    if len(text) > LONGEST_SELECTOR:
        raise bad_request(f"a selector has at most {LONGEST_SELECTOR} characters, this one has {len(text)}")
    return text


def _read_term(term: str, resource: ApiResource) -> tuple[str, bool, str]:
    """Returns the path, whether it must be equal, and the value."""
    match = _TERM.fullmatch(term.strip())
    if match is None:
        raise bad_request(f"invalid field selector: can't understand '{term}'")
    path, operator, value = match.groups()
    if path not in resource.fields:
        raise bad_request(f"field label not supported: {path}; supported are {', '.join(resource.fields)}")
    return path, operator != "!=", re.sub(r"\\([\\,=])", r"\1", value)


def _text_at(body: Body, path: str) -> str:
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)
