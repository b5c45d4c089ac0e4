"""What one write costs the event loop: an event posted to the real API server over TLS, by each transport.

    make bench-writes ARGS='--requests 4000 --at-once 32 --rounds 3'

Each round posts so many events by each transport in turn, through the same client that Berth binds and reports with
(`berth.cluster.api`), so many at once. Microseconds of processor time a request, of the thread that runs the event loop
(nothing else runs in it) and of the whole process, and requests a second. The API server shares the machine: compare
figures of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from bench.contestants import LOGS
from bench.terminal import positive, say
from berth.cluster.api import Api, OpenTransport, open_transport
from berth.cluster.credentials import Credentials, Source
from berth.cluster.proxied import ProxiedTransport
from berth.cluster.transport import Transport
from control_plane.launcher import ControlPlane
from control_plane.programs import find_programs

PATH = "/apis/events.k8s.io/v1/namespaces/default/events"
WARM_UP = 10  # requests a worker, before anything is measured


class Figures(NamedTuple):
    """Of one round of one transport."""

    loop_microseconds: float
    process_microseconds: float
    requests_a_second: float


def by_aiohttp(configuration: Any, *, connections: int, ahead: int, delivery_seconds: float | None) -> Transport:
    return ProxiedTransport(configuration, None, connections=connections, delivery_seconds=delivery_seconds)


TRANSPORTS: dict[str, OpenTransport] = {"aiohttp": by_aiohttp, "direct": open_transport}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-writes", description="what one write costs, by transport")
    parser.add_argument("--requests", type=positive, default=4000, help="by each transport in each round")
    parser.add_argument("--at-once", type=positive, default=32)
    parser.add_argument("--rounds", type=positive, default=3)
    options = parser.parse_args()
    with ControlPlane(find_programs(), logs=LOGS) as control_plane:
        figures = asyncio.run(_measure_all(str(control_plane.kubeconfig), options))
    print(f"{options.requests} events, {options.at_once} at once, median of {options.rounds} rounds")
    print("transport  µs of the loop's thread  µs of the process  requests/s")
    for name, rounds in figures.items():
        loop, process, rate = (median(values) for values in zip(*rounds, strict=True))
        print(f"{name:<9}  {loop:>23.0f}  {process:>17.0f}  {rate:>10.0f}")


async def _measure_all(kubeconfig: str, options: argparse.Namespace) -> dict[str, list[Figures]]:
    numbers = itertools.count()
    figures: dict[str, list[Figures]] = {name: [] for name in TRANSPORTS}
    for number, name in itertools.product(range(options.rounds), TRANSPORTS):
        api = Api(Credentials(Source(kubeconfig)), open_transport=TRANSPORTS[name])
        await api.open()
        try:
            await _post_all(api, numbers, WARM_UP * options.at_once, options.at_once)
            figures[name].append(await _measure(api, numbers, options))
        finally:
            await api.close()
        say(f"round {number + 1}, {name}: {figures[name][-1].loop_microseconds:.0f} µs")
    return figures


async def _measure(api: Api, numbers: Iterator[int], options: argparse.Namespace) -> Figures:
    loop, process, wall = time.thread_time(), time.process_time(), time.monotonic()
    await _post_all(api, numbers, options.requests, options.at_once)
    count = options.requests
    return Figures(
        (time.thread_time() - loop) / count * 1e6,
        (time.process_time() - process) / count * 1e6,
        count / (time.monotonic() - wall),
    )


async def _post_all(api: Api, numbers: Iterator[int], count: int, at_once: int) -> None:
    left = iter(range(count))

    async def post() -> None:
        for _ in left:
            await api.request("POST", PATH, body=_event(next(numbers)), timeout_seconds=30)

    await asyncio.gather(*(post() for _ in range(at_once)))


def _event(number: int) -> dict[str, Any]:
    name = f"web-{number}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{time.time_ns():x}", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"Successfully assigned default/{name} to node-{number % 5000}",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": f"uid-{number}"},
        "reportingController": "berth",
        "reportingInstance": "bench/1",
    }


if __name__ == "__main__":
    main()
