"""Requests: what a path and a query ask for.

    /apis/explain.berth.dev/v1alpha1/namespaces/NAMESPACE/explanations[/NAME]
    /apis/explain.berth.dev/v1alpha1/explanations                                  of all namespaces
    /apis/explain.berth.dev/v1alpha1/nodeviews[/NAME]

Verbs are those of access rules. Every other path is about no resource; `Target.resource` is None then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from berth.explain_api.negotiation import Accepted, object_form
from berth.explain_api.paging import read_token
from berth.explain_api.port import MOST_ITEMS, Detail, Wanted, any_body, any_labels
from berth.explain_api.resources import BY_PLURAL, GROUP, VERSION, ApiResource
from berth.explain_api.selection import NAME, FieldTerms, label_test
from berth.explain_api.statuses import bad_request, not_allowed, nothing_here

PREFIX: Final = f"/apis/{GROUP}/{VERSION}/"
READING: Final = ("GET", "HEAD")
NODE: Final = "node"  # the parameter that names a node whose verdicts are wanted
MOST_NODES: Final = 100
_TRUE: Final = ("true", "1")
_ITEM_VERBS: Final = {"PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_LIST_VERBS: Final = {"PUT": "update", "PATCH": "patch", "DELETE": "deletecollection", "POST": "create"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. `plural` and `subresource` are as in the path, whether they are served or not."""

    verb: str
    path: str
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> ApiResource:
        """Raises ApiRefusal (404) if there is no such resource at such a path."""
        resource = BY_PLURAL.get(self.plural)
        if resource is None or self.subresource:
            raise nothing_here()
        if self.namespace and not resource.namespaced:
            raise nothing_here()
        if self.name and resource.namespaced and not self.namespace:
            raise nothing_here()
        return resource


def find_target(method: str, raw_path: str, *, watching: bool) -> Target:
    """Returns what a request is about; the path is still in the encoding of URLs."""
    if not raw_path.startswith(PREFIX) or not raw_path.removeprefix(PREFIX).strip("/"):
        return Target(method.lower()[:20], unquote(raw_path))
    parts = [unquote(part) for part in raw_path.removeprefix(PREFIX).strip("/").split("/")]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, *rest = (*parts, "")[: max(2, len(parts))]
    verb = _verb(method, name, watching=watching)
    return Target(verb, unquote(raw_path), plural, namespace, name, "/".join(rest))


def _verb(method: str, name: str, *, watching: bool) -> str:
    if method in READING:
        return "watch" if watching else "get" if name else "list"
    return (_ITEM_VERBS if name else _LIST_VERBS).get(method, method.lower()[:20])


@dataclass(frozen=True, slots=True)
class Question:
    """A request for objects, with everything that its query says."""

    resource: ApiResource
    namespace: str
    name: str
    accepted: Accepted
    wanted: Wanted
    detail: Detail
    version: int | None  # of the list that a token goes on with
    watching: bool
    since: str  # the resourceVersion that a watch begins with
    initial_events: bool
    bookmarks: bool
    timeout_seconds: int
    include_object: str


def read_question(target: Target, method: str, query: Mapping[str, str], nodes: Sequence[str], accept: str) -> Question:
    """Raises ApiRefusal: 404 for an unknown resource, 405 for a verb that is not served, 406, 400 for a bad query."""
    resource = target.resource
    if method not in READING:
        raise not_allowed(READING)
    accepted = object_form(accept)
    version, after = read_token(query["continue"]) if query.get("continue") else (None, ("", ""))
    terms = FieldTerms(query.get("fieldSelector", ""), resource)
    labels = label_test(query.get("labelSelector", ""))
    limit = min(_number(query, "limit") or MOST_ITEMS, MOST_ITEMS)
    wanted = Wanted(
        target.namespace or None,
        after,
        limit,
        labels or any_labels,
        terms.match if terms else any_body,
        bool(labels or terms),
    )
    return Question(
        resource,
        target.namespace or (terms.value_of("metadata.namespace") or "" if resource.namespaced else ""),
        target.name or terms.value_of(NAME) or "",
        accepted,
        wanted,
        _read_detail(nodes),
        version,
        target.verb == "watch",
        query.get("resourceVersion", ""),
        query.get("sendInitialEvents") in _TRUE,
        query.get("allowWatchBookmarks") in _TRUE,
        _number(query, "timeoutSeconds"),
        _include_object(query),
    )


def _read_detail(nodes: Sequence[str]) -> Detail:
    if len(nodes) > MOST_NODES:
        raise bad_request(f"node: at most {MOST_NODES} nodes can be named, * stands for all of them")
    return Detail(tuple(node for node in dict.fromkeys(nodes) if node and node != "*"), "*" in nodes)


def _number(query: Mapping[str, str], key: str) -> int:
    text = query.get(key, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise bad_request(f'{key}: "{text[:40]}" is not a number from 0 on')
    return int(text)


def _include_object(query: Mapping[str, str]) -> str:
    chosen = query.get("includeObject", "") or "Metadata"
    if chosen not in ("None", "Metadata", "Object"):
        raise bad_request(f'includeObject: "{chosen[:40]}" is not one of None, Metadata, Object')
    return chosen


def is_true(text: str | None) -> bool:
    """Whether a parameter of a query says yes."""
    return text in _TRUE
