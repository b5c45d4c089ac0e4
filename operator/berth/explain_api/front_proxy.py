"""Who the caller is: the API server says so in headers, and proves by a client certificate that it is the API server.

    kubectl --token--> kube-apiserver --client certificate of the front proxy, X-Remote-User, X-Remote-Group--> here

Which certificates, names and headers count is in ConfigMap kube-system/extension-apiserver-authentication, where the
API server publishes it. Without such a certificate the headers count for nothing: 401. A connection whose certificate
was verified by an authority that is trusted no more is refused as well, and closed.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import orjson
from aiohttp import web

from berth.explain_api.statuses import ApiRefusal, unauthorized
from berth.scheduler.access_review import User
from berth.serving.certificates import context_of

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class BadFrontProxy(ValueError):
    """The ConfigMap cannot be used; str() says why."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """Whose headers are believed. `names` are common names of certificates; without any, each of the authority's is."""

    authorities: frozenset[str]
    names: frozenset[str]
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    uid_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()


def read_front_proxy(data: Mapping[str, Any]) -> FrontProxy:
    """Returns what the data of the ConfigMap say; raises BadFrontProxy."""
    authorities = frozenset(_CERTIFICATE.findall(str(data.get("requestheader-client-ca-file") or "")))
    users = _listed(data, "requestheader-username-headers")
    if not authorities or not users:
        raise BadFrontProxy(
            "it names no certificate authority or no header of a front proxy: the API server needs "
            "--requestheader-client-ca-file and --requestheader-username-headers"
        )
    try:
        _trusting(authorities, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    except ssl.SSLError as error:
        raise BadFrontProxy(f"requestheader-client-ca-file: {error.reason or error}") from error
    return FrontProxy(
        authorities,
        frozenset(_listed(data, "requestheader-allowed-names")),
        users,
        _listed(data, "requestheader-group-headers"),
        _listed(data, "requestheader-uid-headers"),
        _listed(data, "requestheader-extra-headers-prefix"),
    )


def _listed(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    text = data.get(key)
    if not text:
        return ()
    try:
        values = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadFrontProxy(f"{key} is not a list of texts in JSON")
    return tuple(values)


def _trusting(authorities: frozenset[str], context: ssl.SSLContext) -> ssl.SSLContext:
    context.load_verify_locations(cadata="\n".join(sorted(authorities)))
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


class Authentication:
    """Makes the contexts of connections, and reads who sends a request. Lives in the serving loop.

    `pem` returns the certificate to serve, `front_proxy` what is known of the front proxy now: None for nothing.
    """

    def __init__(self, pem: Callable[[], bytes], front_proxy: Callable[[], FrontProxy | None]) -> None:
        self._pem = pem
        self._front_proxy = front_proxy
        self._made: tuple[bytes, frozenset[str], ssl.SSLContext] | None = None
        self._trusted: WeakKeyDictionary[ssl.SSLContext, frozenset[str]] = WeakKeyDictionary()

    def context(self) -> ssl.SSLContext:
        """Returns the context for the next connection."""
        pem, proxy = self._pem(), self._front_proxy()
        authorities = proxy.authorities if proxy is not None else frozenset()
        if self._made is None or self._made[:2] != (pem, authorities):
            context = context_of(pem)
            if authorities:
                _trusting(authorities, context)
            self._trusted[context] = authorities
            self._made = pem, authorities, context
        return self._made[2]

    def identify(self, request: web.BaseRequest) -> User:
        """Returns the user that the front proxy names; raises ApiRefusal (401)."""
        proxy = self._front_proxy()
        if proxy is None:
            raise unauthorized("the front proxy's certificate authority is not known")
        self._check_certificate(request, proxy)
        headers = request.headers
        name = next((headers[header] for header in proxy.user_headers if headers.get(header)), "")
        if not name:
            raise unauthorized("the front proxy names no user")
        groups = [group for header in proxy.group_headers for group in headers.getall(header, ()) if group]
        if name != "system:anonymous" and AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
            groups.append(AUTHENTICATED)
        uid = next((headers[header] for header in proxy.uid_headers if headers.get(header)), "")
        return User(name, uid, tuple(groups), _extra(request, proxy.extra_prefixes))

    def _check_certificate(self, request: web.BaseRequest, proxy: FrontProxy) -> None:
        connection = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
        certificate = connection.getpeercert() if connection is not None else None
        if connection is None or not certificate:
            raise unauthorized("the client certificate of the front proxy is needed")
        trusted = self._trusted.get(connection.context, frozenset())
        if not trusted or not trusted <= proxy.authorities:
            refusal = unauthorized("the client certificate's authority is not trusted any more")
            raise ApiRefusal(refusal.code, refusal.reason, str(refusal), headers={"Connection": "close"})
        if proxy.names and not proxy.names & _common_names(certificate):
            raise unauthorized("the client certificate is not one of the front proxy's")


def _common_names(certificate: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName")


def _extra(request: web.BaseRequest, prefixes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Returns what else is said of the user: the ends of headers' names, which may be encoded, are keys."""
    found: dict[str, tuple[str, ...]] = {}
    for header, value in request.headers.items():
        for prefix in prefixes:
            if header.lower().startswith(prefix.lower()):
                key = unquote(header[len(prefix) :]).lower()
                found[key] = (*found.get(key, ()), value)
    return found
