"""TokenReview and SubjectAccessReview: whose token it is, and what they may do with a path."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from berth.sim.server.reviews import AccessRule, Account
from contract.asking import Server, refused
from control_plane.accounts import make_real_account, user_name
from control_plane.client import Client

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RULES = (("get", "/metrics"), ("*", "/log-level"), ("get", "/debug/*"))


def token_review(token: str) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def access_review(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


@pytest.fixture
async def token(server: Server, api: Client, request: pytest.FixtureRequest) -> str:
    """Of `reviewed`, who may do what RULES say; stays on the real server, under a name of its own for each test."""
    name = _name(request)
    if server.accounts is None:
        return await make_real_account(api, name, *RULES)
    account = Account(user_name(name), "some-uid", rules=tuple(AccessRule(*rule) for rule in RULES))
    server.accounts["some-token"] = account
    return "some-token"


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    return user_name(_name(request))


def _name(request: pytest.FixtureRequest) -> str:
    return f"reviewed-{zlib.crc32(request.node.nodeid.encode())}"


async def test_a_known_token_has_a_user(api: Client, token: str, user: str) -> None:
    answer = await api.request("POST", TOKENS, token_review(token))
    assert (answer["kind"], answer["apiVersion"]) == ("TokenReview", "authentication.k8s.io/v1")
    status = answer["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == user
    assert status["user"]["uid"]
    assert "system:authenticated" in status["user"]["groups"]
    assert "metadata" in answer
    assert "name" not in answer["metadata"]


async def test_another_token_has_no_user(api: Client) -> None:
    answer = await api.request("POST", TOKENS, token_review("stolen"))
    assert answer["status"] == {"user": {}, "error": "invalid bearer token"}


async def test_a_review_without_a_token_is_refused(api: Client) -> None:
    assert await refused(api, 400, "POST", TOKENS, token_review("")) == (
        "token is required for TokenReview in authentication"
    )


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("get", "/metrics", True),
        ("put", "/metrics", False),
        ("get", "/metrics/", False),
        ("get", "/configz", False),
        ("put", "/log-level", True),
        ("get", "/debug/cache", True),
        ("get", "/debug", False),
        ("get", "/debug/", True),
        ("get", "//metrics", False),
        ("GET", "/metrics", False),
        ("get", "", False),
    ],
)
async def test_a_right_is_for_a_verb_and_a_path(
    api: Client, token: str, user: str, verb: str, path: str, allowed: bool
) -> None:
    asked = {"verb": verb, "path": path}
    answer = await api.request("POST", ACCESS, access_review(user=user, nonResourceAttributes=asked))
    assert answer["status"]["allowed"] is allowed
    assert answer["spec"]["user"] == user


async def test_a_group_may_have_every_right_and_a_stranger_none(api: Client) -> None:
    asked = {"verb": "get", "path": "/metrics"}
    for groups, allowed in ((["system:masters"], True), (["system:authenticated"], False)):
        body = access_review(user="stranger", groups=groups, nonResourceAttributes=asked)
        assert (await api.request("POST", ACCESS, body))["status"]["allowed"] is allowed


async def test_half_a_question_is_refused(api: Client) -> None:
    asked = {"verb": "get", "path": "/metrics"}
    said = await refused(api, 422, "POST", ACCESS, access_review(nonResourceAttributes=asked))
    assert said.endswith('spec.user: Invalid value: "": at least one of user or group must be specified')
    said = await refused(api, 422, "POST", ACCESS, access_review(user="x"))
    assert "exactly one of nonResourceAttributes or resourceAttributes must be specified" in said


async def test_a_question_is_only_posted(api: Client) -> None:
    for path in (TOKENS, ACCESS):
        said = await refused(api, 405, "GET", path)
        assert said == "the server does not allow this method on the requested resource"
    said = await refused(api, 400, "POST", ACCESS, {"apiVersion": "v1", "kind": "Foo"})
    assert said.startswith('Foo in version "v1" cannot be handled as a SubjectAccessReview')


async def test_a_service_account_gets_a_token_that_is_known(api: Client) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}}
    await api.create(account)
    path = "/api/v1/namespaces/default/serviceaccounts/robot"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 1200}}
    answer = await api.request("POST", f"{path}/token", body)
    assert answer["spec"]["expirationSeconds"] == 1200
    review = await api.request("POST", TOKENS, token_review(answer["status"]["token"]))
    assert review["status"]["authenticated"] is True
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in review["status"]["user"]["groups"]
    said = await refused(api, 422, "POST", f"{path}/token", {**body, "spec": {"expirationSeconds": 60}})
    assert "spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes" in said
    await api.delete(path)
    assert "not found" in await refused(api, 404, "POST", f"{path}/token", body)


async def test_an_administrator_may_do_everything_and_is_told_so(api: Client) -> None:
    group = "authorization.k8s.io/v1"
    asked = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}
    body = {"apiVersion": group, "kind": "SelfSubjectAccessReview", "spec": asked}
    answer = await api.request("POST", f"/apis/{group}/selfsubjectaccessreviews", body)
    assert answer["status"]["allowed"] is True
    body = {"apiVersion": group, "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}
    answer = await api.request("POST", f"/apis/{group}/selfsubjectrulesreviews", body)
    rules = [(rule["verbs"], rule["apiGroups"], rule["resources"]) for rule in answer["status"]["resourceRules"]]
    assert (["*"], ["*"], ["*"]) in rules
    group = "authentication.k8s.io/v1"
    body = {"apiVersion": group, "kind": "SelfSubjectReview"}
    answer = await api.request("POST", f"/apis/{group}/selfsubjectreviews", body)
    assert "system:masters" in answer["status"]["userInfo"]["groups"]
