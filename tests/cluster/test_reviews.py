"""What is asked of the API server about somebody who asks us something, and what is made of its answers."""

from typing import Any

import pytest

from berth.cluster.api import Api
from berth.cluster.errors import ApiError, Unreachable
from berth.cluster.reviews import KubernetesReviews
from berth.scheduler.access_review import ResourceAccess, ReviewFailed, User
from cluster.server import Answer, Cut, Server, Silence, refusal

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
EXTRA = {"authentication.kubernetes.io/credential-id": ["JTI=1"]}


async def test_a_token_is_reviewed_and_its_owner_asked_about_in_full(server: Server, api: Api) -> None:
    user = {"username": "monitor", "uid": "u", "groups": ["a", "b"], "extra": EXTRA}
    server.answer("POST", TOKENS, Answer(201, {"status": {"authenticated": True, "user": user}}))
    server.answer("POST", ACCESS, Answer(201, {"status": {"allowed": True}}))
    reviews = KubernetesReviews(api)
    found = await reviews.identify("t")
    assert found == User("monitor", "u", ("a", "b"), {key: tuple(values) for key, values in EXTRA.items()})
    assert found is not None
    assert await reviews.allows(found, "get", "/metrics")
    asked = [request.body for request in server.requests]
    assert asked[0] == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "t"},
    }
    assert asked[1]["spec"] == {
        "user": "monitor",
        "uid": "u",
        "groups": ["a", "b"],
        "extra": EXTRA,
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    "status",
    [{}, {"authenticated": False}, {"authenticated": "true", "user": {"username": "x"}}, {"error": "invalid"}],
)
async def test_only_a_clear_yes_makes_a_token_somebodys(server: Server, api: Api, status: dict[str, Any]) -> None:
    server.answer("POST", TOKENS, Answer(201, {"status": status}))
    assert await KubernetesReviews(api).identify("t") is None


@pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": "true"}, {"allowed": True, "denied": True}])
async def test_only_a_clear_yes_is_a_right(server: Server, api: Api, status: dict[str, Any]) -> None:
    server.answer("POST", ACCESS, Answer(201, {"status": status}))
    assert not await KubernetesReviews(api).allows(User("x"), "get", "/metrics")


@pytest.mark.parametrize(
    "reaction",
    [
        Cut(),
        Silence(),
        refusal(403, "Forbidden", "you may not ask"),
        refusal(500, "InternalError", "no"),
        Answer(201, {}),
        Answer(201, {"status": []}),
        Answer(201, {"status": {"authenticated": True}}),
        Answer(201, {"status": {"authenticated": True, "user": {"username": ""}}}),
    ],
)
async def test_what_is_no_answer_is_a_failure(server: Server, api: Api, reaction: Any) -> None:
    server.answer("POST", TOKENS, reaction)
    with pytest.raises(ReviewFailed, match="TokenReview: "):
        await KubernetesReviews(api, limit_seconds=0.2).identify("t")


async def test_the_age_of_the_last_answer_is_known(server: Server, api: Api) -> None:
    def age() -> float | None:
        return api.last_answer_seconds

    assert age() is None
    server.answer("GET", "/version", refusal(500, "InternalError", "no"), Answer(404), Cut())
    for expected in (False, True, True):
        with pytest.raises((ApiError, Unreachable)):
            await api.request("GET", "/version")
        assert (age() is not None) is expected
    assert 0 <= (age() or 0) < 60


async def test_a_right_to_a_resource_is_asked_for_by_its_attributes(server: Server, api: Api) -> None:
    server.answer("POST", ACCESS, Answer(201, {"status": {"allowed": True}}))
    access = ResourceAccess("list", "explain.berth.dev", "v1alpha1", "explanations", namespace="shop")
    assert await KubernetesReviews(api).allows_resource(User("bob", groups=("dev",)), access)
    assert server.requests[0].body["spec"] == {
        "user": "bob",
        "uid": "",
        "groups": ["dev"],
        "extra": {},
        "resourceAttributes": {
            "verb": "list",
            "group": "explain.berth.dev",
            "version": "v1alpha1",
            "resource": "explanations",
            "namespace": "shop",
        },
    }
