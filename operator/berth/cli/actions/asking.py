"""What `berth status`, `decisions` and `top` share: they ask the running scheduler over its API of explanations."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
import yaml

from berth.cli.common import credentials_source
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials, context_namespace
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.explain_api.port import MOST_ITEMS
from berth.explain_api.resources import API_VERSION, GROUP

Body = dict[str, Any]

TIMEOUT_SECONDS: Final = 40.0
FEW: Final = 10
BUSY: Final = (429, 503)
CANNOT_ASK: Final = (ApiError, Unreachable, CredentialsError)
"""What asking may raise."""


class SchedulerApi:
    """The API of explanations, as this user sees it."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def one(self, path: str) -> Body:
        """Returns one object, such as `clusterviews/current`."""
        _, body = await self._api.request("GET", f"/apis/{API_VERSION}/{path}", timeout_seconds=TIMEOUT_SECONDS)
        return body

    async def some(self, plural: str) -> list[Body]:
        """Returns the first few objects of all namespaces."""
        path, query = f"/apis/{API_VERSION}/{plural}", {"limit": str(FEW)}
        _, body = await self._api.request("GET", path, query=query, timeout_seconds=TIMEOUT_SECONDS)
        return body.get("items") or []

    async def all(self, plural: str, namespace: str = "", fields: str = "") -> list[Body]:
        """Returns the objects of a namespace, or of all, page by page."""
        place = f"namespaces/{namespace}/{plural}" if namespace else plural
        query = {"limit": str(MOST_ITEMS), **({"fieldSelector": fields} if fields else {})}
        found: list[Body] = []
        while True:
            path = f"/apis/{API_VERSION}/{place}"
            _, body = await self._api.request("GET", path, query=query, timeout_seconds=TIMEOUT_SECONDS)
            found += body.get("items") or []
            token = (body.get("metadata") or {}).get("continue")
            if not token:
                return found
            query["continue"] = token


@asynccontextmanager
async def scheduler_api(options: argparse.Namespace) -> AsyncIterator[SchedulerApi]:
    """Opens the connection to the API server that the options name."""
    api = Api(Credentials(credentials_source(options)))
    try:
        await api.open()
        yield SchedulerApi(api)
    finally:
        await api.close()


def namespace_of(options: argparse.Namespace) -> str:
    """Returns the namespace that is asked about: "" for all of them."""
    if options.all_namespaces:
        return ""
    return str(options.namespace or context_namespace(credentials_source(options)))


def is_busy(error: Exception) -> bool:
    """Whether the same question may be answered a moment later: a leader has died, or there are too many questions."""
    return isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.status in BUSY)


def reason_of(error: Exception, roles: Sequence[str] = ()) -> str:
    """Returns what went wrong and what to do about it. `roles`: the ClusterRoles that allow what was asked."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.status == 404 and not error.names_missing_object:
        return (
            f"the API of explanations ({GROUP}) is not served here: Berth's chart installs it with "
            "explanations.enabled; `berth why` works without it"
        )
    if error.status == 403 and roles:
        return f"{error.message}; {' and '.join(roles)} of Berth's chart allow{'s' if len(roles) == 1 else ''} it"
    if error.status == 503:
        return "no replica of Berth answers: see `berth leader`, and `kubectl get apiservice`"
    return str(error)


async def wait(seconds: float) -> None:
    """Between two questions."""
    await asyncio.sleep(seconds)


def print_bodies(bodies: Sequence[Mapping[str, Any]], output: str, *, as_list: bool) -> None:
    """Prints objects as JSON or YAML; `as_list`: as one List, as kubectl does."""
    shown: Any = {"apiVersion": "v1", "kind": "List", "items": list(bodies)} if as_list else None
    for body in [shown] if as_list else bodies:
        if output == "json":
            print(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
        else:
            print(yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=120), end="")


def complain_once(text: str, said: set[str]) -> None:
    """Says on standard error what has not been said before."""
    if text not in said:
        said.add(text)
        print(text, file=sys.stderr)
