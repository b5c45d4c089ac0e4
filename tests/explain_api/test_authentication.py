"""Who is believed: the front proxy, by its certificate, and nobody else."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from berth.explain_api.front_proxy import BadFrontProxy, read_front_proxy
from berth.scheduler.access_review import ResourceAccess, User
from explain_api.authority import make_authority
from explain_api.fakes import FakeReviews
from explain_api.harness import NAME, authority, front_proxy_data, running

PATHS = ("explanations", "/apis", "/apis/explain.berth.dev/v1alpha1", "/nothing", "namespaces/a/explanations/b")


async def test_headers_without_the_front_proxys_certificate_count_for_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        forger = api.session(None)
        for path in PATHS:
            answer = await api.get(path, session=forger)
            assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
    assert api.port.asked == []
    assert api.reviews.asked == []


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    other = make_authority("somebody-else").write_client(tmp_path, NAME)
    async with running(tmp_path) as api:
        with pytest.raises(aiohttp.ClientError):
            await api.get("explanations", session=api.session(other))
    assert api.port.asked == []


async def test_a_certificate_of_the_authority_with_another_name_is_refused(tmp_path: Path) -> None:
    """The authority may sign others as well."""
    other = authority.write_client(tmp_path, "kubelet")
    async with running(tmp_path) as api:
        assert (await api.get("explanations", session=api.session(other))).status == 401
    async with running(tmp_path, names=()) as api:
        assert (await api.get("explanations", session=api.session(other))).status == 200


async def test_nobody_is_believed_before_the_authority_is_known(tmp_path: Path) -> None:
    async with running(tmp_path, known=False) as api:
        assert (await api.get("explanations")).status == 401
        api.proxy.append(read_front_proxy(front_proxy_data(authority, NAME)))
        fresh = api.session(authority.write_client(tmp_path, NAME))
        assert (await api.get("explanations", session=fresh)).status == 200


async def test_an_authority_that_is_trusted_no_more_is_not_believed_on_open_connections_either(tmp_path: Path) -> None:
    successor = make_authority("next")
    both = front_proxy_data(authority, NAME)
    both["requestheader-client-ca-file"] += successor.pem
    async with running(tmp_path) as api:
        old = api.session(authority.write_client(tmp_path, NAME))
        assert (await api.get("explanations", session=old)).status == 200
        api.proxy.append(read_front_proxy(both))
        assert (await api.get("explanations", session=old)).status == 200

        api.proxy.append(read_front_proxy(front_proxy_data(successor, NAME)))
        refused = await api.get("explanations", session=old)
        assert (refused.status, refused.headers["Connection"]) == (401, "close")
        new = api.session(successor.write_client(tmp_path, NAME))
        assert (await api.get("explanations", session=new)).status == 200


async def test_a_request_that_names_no_user_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        assert (await api.get("explanations", user="")).status == 401


async def test_user_groups_and_the_rest_are_what_the_front_proxy_says(tmp_path: Path) -> None:
    reviews = FakeReviews()
    more = {"X-Remote-Uid": "u-1", "X-Remote-Extra-Acme.com%2fproject": "some", "x-remote-extra-scopes": "openid"}
    groups = ("dev", "oncall", "system:authenticated")
    async with running(tmp_path, reviews=reviews) as api:
        await api.get("namespaces/shop/explanations", user="bob", groups=groups, headers=more)
    extra = {"acme.com/project": ("some",), "scopes": ("openid",)}
    assert reviews.asked[0][0] == User("bob", "u-1", groups, extra)


async def test_a_user_may_have_hundreds_of_groups(tmp_path: Path) -> None:
    reviews = FakeReviews()
    groups = tuple(f"group-{number}" for number in range(400))
    async with running(tmp_path, reviews=reviews) as api:
        assert (await api.get("explanations", user="bob", groups=groups)).status == 200
    assert reviews.asked[0][0].groups == (*groups, "system:authenticated")


# --- rights ----------------------------------------------------------------------------------------------------------


async def test_each_request_is_reviewed_for_what_it_asks(tmp_path: Path) -> None:
    reviews = FakeReviews()
    async with running(tmp_path, reviews=reviews) as api:
        for path in ("namespaces/shop/explanations", "nodeviews/n1", "explanations/x", "pods", "/apis"):
            await api.get(path, user="bob", groups=())
        await api.get("namespaces/shop/decisions/d", user="bob", groups=(), method="DELETE")
    group, version = "explain.berth.dev", "v1alpha1"
    assert [access for _, access in reviews.asked] == [
        ResourceAccess("list", group, version, "explanations", "", "shop", ""),
        ResourceAccess("get", group, version, "nodeviews", "", "", "n1"),
        ResourceAccess("get", group, version, "explanations", "", "", "x"),
        ResourceAccess("list", group, version, "pods"),
        "get /apis",
        ResourceAccess("delete", group, version, "decisions", "", "shop", "d"),
    ]


async def test_without_the_right_nothing_is_shown_and_nothing_computed(tmp_path: Path) -> None:
    reviews = FakeReviews(rights=lambda user, access: isinstance(access, ResourceAccess) and access.namespace == "mine")
    async with running(tmp_path, reviews=reviews) as api:
        allowed = await api.get("namespaces/mine/explanations", user="bob", groups=())
        refused = await api.get("namespaces/shop/explanations", user="bob", groups=())
        unknown = await api.get("/nothing", user="bob", groups=())
    assert allowed.status == 200
    assert refused.status == unknown.status == 403
    assert refused.json["message"] == (
        'explanations.explain.berth.dev is forbidden: User "bob" cannot list resource "explanations" '
        'in API group "explain.berth.dev" in the namespace "shop"'
    )
    assert api.port.asked == [("pending", "mine")]


async def test_a_right_that_cannot_be_reviewed_is_none(tmp_path: Path) -> None:
    async with running(tmp_path, reviews=FakeReviews(failing=True)) as api:
        answer = await api.get("explanations", user="bob", groups=())
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert api.port.asked == []


async def test_reviews_are_remembered_for_each_user_apart(tmp_path: Path) -> None:
    reviews = FakeReviews(rights=lambda user, access: user.name == "bob")
    async with running(tmp_path, reviews=reviews) as api:
        for _ in range(3):
            assert (await api.get("nodeviews", user="bob", groups=())).status == 200
            assert (await api.get("nodeviews", user="eve", groups=())).status == 403
            assert (await api.get("nodeviews", user="bob", groups=("x",))).status == 200
    assert len(reviews.asked) == 3


async def test_the_api_server_itself_is_answered_without_a_review(tmp_path: Path) -> None:
    async with running(tmp_path, reviews=FakeReviews(failing=True)) as api:
        asked = [api.get("/apis/explain.berth.dev/v1alpha1", user="system:kube-aggregator") for _ in range(5)]
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}


# --- the ConfigMap ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("requestheader-client-ca-file", ""),
        ("requestheader-client-ca-file", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ("requestheader-username-headers", ""),
        ("requestheader-username-headers", "X-Remote-User"),
        ("requestheader-allowed-names", '{"a": 1}'),
        ("requestheader-group-headers", "[1]"),
    ],
)
def test_a_config_map_that_names_no_front_proxy_is_refused(key: str, value: str) -> None:
    with pytest.raises(BadFrontProxy):
        read_front_proxy({**front_proxy_data(authority, NAME), key: value})
