"""Tokens with and without rights on paths, on the real server and on the embedded one.

    token = await make_account(plane, api, "monitor", ("get", "/metrics"))

On the real one it is a ServiceAccount with a ClusterRole on nonResourceURLs, and a token by the TokenRequest API.
"""

from __future__ import annotations

import asyncio
import secrets

from berth.sim.server.reviews import AccessRule, Account
from control_plane.client import Client
from control_plane.embedded import EmbeddedPlane
from control_plane.launcher import ControlPlane

NAMESPACE = "default"
ROLE_SECONDS = 60.0
POLL_SECONDS = 0.05
TOKEN_SECONDS = 600  # the shortest that the API server grants


async def make_account(plane: ControlPlane | EmbeddedPlane, api: Client, name: str, *rules: tuple[str, str]) -> str:
    """A token of somebody who may do these things (verb, path) and nothing else; each name once in a session."""
    if isinstance(plane, EmbeddedPlane):
        token = secrets.token_urlsafe()
        plane.add_account(token, Account(user_name(name), rules=tuple(AccessRule(*rule) for rule in rules)))
        return token
    return await make_real_account(api, name, *rules)


def user_name(name: str) -> str:
    """What the API server calls the account."""
    return f"system:serviceaccount:{NAMESPACE}:{name}"


async def make_real_account(api: Client, name: str, *rules: tuple[str, str]) -> str:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    access = "/apis/rbac.authorization.k8s.io/v1"
    await api.request("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"nonResourceURLs": [path], "verbs": [verb]} for verb, path in rules],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    }
    await api.request("POST", f"{access}/clusterroles", role)
    await api.request("POST", f"{access}/clusterrolebindings", binding)
    for verb, path in rules:
        await _wait_allowed(api, name, verb, path)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = await api.request("POST", f"{accounts}/{name}/token", request)
    return str(answer["status"]["token"])


async def _wait_allowed(api: Client, name: str, verb: str, path: str) -> None:
    """The API server learns of roles by a watch of its own, a moment after they are made."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user_name(name), "nonResourceAttributes": {"path": path, "verb": verb.replace("*", "get")}},
    }
    async with asyncio.timeout(ROLE_SECONDS):
        while True:
            answer = await api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
            if answer["status"]["allowed"]:
                return
            await asyncio.sleep(POLL_SECONDS)
