"""Reviews: whose token it is, who asks, and what they may do with a path or a resource.

    server = SimServer(store, accounts={"some-token": Account("monitor", rules=(AccessRule("get", "/metrics"),))})

TokenReview and SubjectAccessReview are for programs that review the tokens of *their* clients: they know the accounts
that the server was given or issued tokens for, and no others. No roles are evaluated.

SelfSubjectReview, SelfSubjectAccessReview and SelfSubjectRulesReview are what `kubectl auth` asks. The embedded server
allows every request, and says so.

Questions and refusals have the real server's form and words (tests/contract/test_reviews.py). They are not in
discovery: no client looks for them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from berth.sim.errors import StatusError, bad_request, method_not_allowed

AUTHENTICATION: Final = "authentication.k8s.io/v1"
AUTHORIZATION: Final = "authorization.k8s.io/v1"
PATHS: Final = {
    f"/apis/{AUTHENTICATION}/tokenreviews": (AUTHENTICATION, "TokenReview"),
    f"/apis/{AUTHENTICATION}/selfsubjectreviews": (AUTHENTICATION, "SelfSubjectReview"),
    f"/apis/{AUTHORIZATION}/subjectaccessreviews": (AUTHORIZATION, "SubjectAccessReview"),
    f"/apis/{AUTHORIZATION}/selfsubjectaccessreviews": (AUTHORIZATION, "SelfSubjectAccessReview"),
    f"/apis/{AUTHORIZATION}/selfsubjectrulesreviews": (AUTHORIZATION, "SelfSubjectRulesReview"),
}
AUDIENCES: Final = ("https://kubernetes.default.svc",)
EVERYTHING: Final = "system:masters"
DISCOVERY: Final = ("/api", "/openapi")
ALLOWED: Final = "the embedded API server allows every request"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A verb, or "*", and a path, which may end in "*"."""

    verb: str
    path: str

    def covers(self, verb: str, path: str) -> bool:
        if self.verb not in ("*", verb):
            return False
        return path.startswith(self.path[:-1]) if self.path.endswith("*") else path == self.path


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """A verb and a resource, each may be "*", in a group and in a namespace; "" for all namespaces."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    def covers(self, asked: Mapping[str, Any]) -> bool:
        return (
            self.verb in ("*", asked.get("verb"))
            and self.group == asked.get("group", "")
            and self.resource in ("*", asked.get("resource"))
            and self.namespace in ("", asked.get("namespace"))
        )


@dataclass(frozen=True, slots=True)
class Account:
    """A user with a token."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ("system:authenticated",)
    rules: tuple[AccessRule, ...] = ()
    resource_rules: tuple[ResourceRule, ...] = ()


ANYBODY: Final = Account("anybody", groups=(EVERYTHING, "system:authenticated"))
"""A client without a token, or with one that is not known."""


def review(accounts: Mapping[str, Account], path: str, method: str, body: object, asker: Account) -> dict[str, Any]:
    """The answer to a question that was posted to one of PATHS; raises StatusError."""
    if method != "POST":
        raise method_not_allowed("the server does not allow this method on the requested resource")
    version, kind = PATHS[path]
    if not isinstance(body, Mapping):
        raise bad_request("the body of the request is not an object")
    if body.get("kind", kind) != kind or body.get("apiVersion", version) != version:
        asked = f'{body.get("kind")} in version "{body.get("apiVersion")}"'
        raise bad_request(f"{asked} cannot be handled as a {kind}")
    spec = body.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    answer: dict[str, Any] = {"kind": kind, "apiVersion": version, "metadata": {}}
    if kind == "SelfSubjectReview":
        return {**answer, "status": {"userInfo": _user(asker)}}
    return {**answer, "spec": dict(spec), "status": _status(accounts, kind, spec)}


def _status(accounts: Mapping[str, Account], kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    match kind:
        case "TokenReview":
            return _identify(accounts, spec)
        case "SubjectAccessReview":
            return _judge(accounts, spec)
        case "SelfSubjectAccessReview":
            _check_attributes(spec)
            return {"allowed": True, "reason": ALLOWED}
        case _:
            return _all_rules(spec)


def _all_rules(spec: Mapping[str, Any]) -> dict[str, Any]:
    if not spec.get("namespace"):
        raise bad_request("no namespace on request")
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def _user(account: Account) -> dict[str, Any]:
    uid = {"uid": account.uid} if account.uid else {}
    return {"username": account.name, "groups": list(account.groups), **uid}


def _identify(accounts: Mapping[str, Account], spec: Mapping[str, Any]) -> dict[str, Any]:
    token = spec.get("token")
    if not token or not isinstance(token, str):
        raise bad_request("token is required for TokenReview in authentication")
    account = accounts.get(token)
    if account is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _user(account), "audiences": list(AUDIENCES)}


def _judge(accounts: Mapping[str, Account], spec: Mapping[str, Any]) -> dict[str, Any]:
    _check_attributes(spec)
    asked, resource = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if not spec.get("user") and not spec.get("groups"):
        raise _invalid('spec.user: Invalid value: "": at least one of user or group must be specified')
    if EVERYTHING in (spec.get("groups") or ()):
        return {"allowed": True}
    known = [account for account in accounts.values() if account.name == spec.get("user")]
    if isinstance(resource, Mapping):
        return {"allowed": any(rule.covers(resource) for account in known for rule in account.resource_rules)}
    verb, path = (str(asked.get(part, "")) for part in ("verb", "path")) if isinstance(asked, Mapping) else ("", "")
    is_discovery = verb == "get" and path.startswith(DISCOVERY)  # as role system:discovery allows to every user
    return {"allowed": is_discovery or any(rule.covers(verb, path) for account in known for rule in account.rules)}


def _check_attributes(spec: Mapping[str, Any]) -> None:
    if (spec.get("nonResourceAttributes") is None) is (spec.get("resourceAttributes") is None):
        raise _invalid(
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes "
            "must be specified"
        )


def _invalid(problem: str) -> StatusError:
    return StatusError(422, "Invalid", f'.authorization.k8s.io "" is invalid: {problem}', {})
