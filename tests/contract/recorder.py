"""Writes recorded_requests.json: which requests kubectl, Berth (kopf and our own client) and the test client send.

    PYTHONPATH=tests:operator python -m contract.recorder

It starts a real control plane with a recording reverse proxy before it, runs a session of kubectl commands and of Berth
through the proxy, and writes down each distinct shape: method, path, query, Accept and Content-Type. Names, UIDs,
versions and durations become placeholders; no host, token or body is kept. Run it again after an upgrade of kopf,
kubernetes_asyncio or Kubernetes; the test that replays the shapes then says what the embedded server lacks.

kubectl sends no credentials over plain HTTP, so the proxy adds the administrator's token to whatever comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from contract.kubectl_session import COMMANDS, MANIFESTS
from control_plane.berth_process import BerthProcess
from control_plane.client import PODS, Client
from control_plane.launcher import ControlPlane
from control_plane.process import unverified_tls
from control_plane.programs import find_programs
from support.builders import make_node, make_pod

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = Path(__file__).with_name("recorded_requests.json")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OBJECT_UID = re.compile(r"(involvedObject\.uid=)[^,]+")
HEADERS_NOT_FORWARDED = {"host", "authorization", "content-length", "transfer-encoding", "accept-encoding"}
ANSWER_HEADERS = ("Content-Type", "Warning", "Retry-After", "ETag")

Shape = tuple[str, str, tuple[tuple[str, str], ...], str, str]


class Recorder:
    """A reverse proxy that keeps the shapes of what passes through it, and who sent them."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._shapes: dict[Shape, set[str]] = defaultdict(set)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None
        self.url = ""

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=unverified_tls()), auto_decompress=True
        )
        self._runner = web.ServerRunner(web.Server(self._forward))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=1.0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None and self._session is not None:
            await self._runner.cleanup()
            await self._session.close()

    def shapes(self) -> list[dict[str, Any]]:
        return [
            {
                "method": method,
                "path": path,
                "query": dict(query),
                "accept": accept,
                "contentType": content_type,
                "from": sorted(senders),
            }
            for (method, path, query, accept, content_type), senders in sorted(self._shapes.items())
        ]

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        self._shapes[shape_of(request)].add(sender_of(request))
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HEADERS_NOT_FORWARDED}
        headers["Authorization"] = f"Bearer {self._token}"
        async with self._session.request(
            request.method,
            self._url + request.raw_path,
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as upstream:
            answer = web.StreamResponse(
                status=upstream.status,
                headers={name: upstream.headers[name] for name in ANSWER_HEADERS if name in upstream.headers},
            )
            with contextlib.suppress(ConnectionError):  # the client has seen enough
                await answer.prepare(request)
                async for chunk in upstream.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
            return answer


def sender_of(request: web.BaseRequest) -> str:
    agent = request.headers.get("User-Agent", "")
    for known in ("kubectl", "kopf", "berth"):
        if agent.startswith(known):
            return known
    return "test client"


def shape_of(request: web.BaseRequest) -> Shape:
    query = tuple(sorted((key, _value(key, value)) for key, value in request.query.items()))
    content_type = request.headers.get("Content-Type", "") if request.body_exists else ""
    return request.method, path_shape(request.path), query, request.headers.get("Accept", ""), content_type


def path_shape(path: str) -> str:
    """The path with {namespace} and {name} for what depends on the objects of the day."""
    parts = path.strip("/").split("/")
    skip = 2 if parts[0] == "api" else 3 if parts[0] == "apis" else len(parts)
    rest = parts[skip:]
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        return "/" + "/".join([*parts[:skip], "namespaces", "{namespace}", *_named(rest[2:])])
    return "/" + "/".join([*parts[:skip], *_named(rest)])


def _named(rest: list[str]) -> list[str]:
    return [rest[0], "{name}", *rest[2:]] if len(rest) >= 2 else rest


def _value(key: str, value: str) -> str:
    if key == "resourceVersion" and value not in ("", "0"):
        return "{version}"
    if key in ("timeoutSeconds", "continue", "hash"):
        return f"{{{key}}}"
    if key == "timeout":
        return value
    return OBJECT_UID.sub(r"\1{uid}", UID.sub("{uid}", value))


async def record() -> list[dict[str, Any]]:
    with ControlPlane(find_programs()) as plane, tempfile.TemporaryDirectory() as folder:
        plane.apply_crds(ROOT / "crds")
        recorder = Recorder(plane.url, plane.token)
        await recorder.start()
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(recorder.url)))
        try:
            await _run_kubectl(kubeconfig, Path(folder))
            await _run_berth(kubeconfig, Path(folder), recorder.url)
        finally:
            await recorder.stop()
        return recorder.shapes()


async def _run_kubectl(kubeconfig: Path, folder: Path) -> None:
    for name, manifest in MANIFESTS.items():
        (folder / name).write_text(json.dumps(manifest))
    kubectl = find_programs().kubectl
    for command in COMMANDS:
        words = [word.replace("{folder}", str(folder)) for word in command.split()]
        environment = {**os.environ, "HOME": str(folder), "KUBECACHEDIR": str(folder / "cache")}
        done = await asyncio.to_thread(
            subprocess.run,
            [str(kubectl), "--kubeconfig", str(kubeconfig), *words],
            capture_output=True,
            text=True,
            env=environment,
        )
        print(f"kubectl {command}: {done.returncode} {done.stderr.strip()[:200]}")


async def _run_berth(kubeconfig: Path, folder: Path, url: str) -> None:
    berth = BerthProcess(kubeconfig, log=folder / "berth.log")
    await asyncio.to_thread(berth.start)
    async with Client(url, "") as api:
        await api.create_many(make_node(f"n{i}", cpu="1") for i in range(3))
        await api.create_many(make_pod(f"p{i}", cpu="100m") for i in range(10))
        await api.create(make_pod("too-big", cpu="64"))
        await api.wait_until(
            PODS, lambda pods: sum(bool(p["spec"].get("nodeName")) for p in pods.values()) >= 10, timeout_seconds=60
        )
        await api.delete("/api/v1/namespaces/default/pods/too-big")
        await asyncio.sleep(12)  # Berth writes conditions and the statuses of policies a little later
        await api.patch("/api/v1/namespaces/default/pods/p0", {"metadata": {"labels": {"a": "b"}}})
        await api.delete_collection("/api/v1/namespaces/default/pods")
        await api.list(PODS, fieldSelector="spec.nodeName=")
    await asyncio.to_thread(berth.finish)


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "recorded",
        "clusters": [{"name": "recorded", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "recorded", "context": {"cluster": "recorded", "user": "nobody"}}],
    }


def main() -> None:
    shapes = asyncio.run(record())
    OUTPUT.write_text(json.dumps(shapes, indent=1) + "\n")
    print(f"{len(shapes)} shapes in {OUTPUT.name}")


if __name__ == "__main__":
    main()
