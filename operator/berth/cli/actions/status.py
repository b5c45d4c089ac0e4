"""`berth status`: asks the scheduler how it is, and prints the answer."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from berth.cli.actions.asking import CANNOT_ASK, Body, is_busy, print_bodies, reason_of, scheduler_api
from berth.cli.common import FAILED, NO, OK, complain, silence_logs
from berth.explain_api.resources import CLUSTER_VIEWS, CURRENT, GROUP
from berth.policy.wording import count
from berth.whatif.tables import BOLD, FAINT, GREEN, RED, YELLOW, Painter, aligned

ROLES: Final = ("ClusterRole berth-explain-cluster-view",)
SETTLED: Final = ("InForce", "Shadow", "Disabled")  # states of a policy that need nobody's attention


def run(options: argparse.Namespace) -> int:
    """Prints the state of the scheduler."""
    silence_logs()
    try:
        view = asyncio.run(_read(options))
    except CANNOT_ASK as error:
        return complain(f"berth status: {reason_of(error, ROLES)}", NO if is_busy(error) else FAILED)
    if options.output in ("json", "yaml"):
        print_bodies([view], options.output, as_list=False)
    elif options.output == "name":
        print(f"{CLUSTER_VIEWS.singular}.{GROUP}/{CURRENT}")
    else:
        paint = Painter(sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
        print("\n".join(status_lines(view["status"], paint, wide=options.output == "wide")))
    return OK if is_well(view["status"]) else NO


async def _read(options: argparse.Namespace) -> Body:
    async with scheduler_api(options) as scheduler:
        return await scheduler.one(f"{CLUSTER_VIEWS.plural}/{CURRENT}")


def is_well(status: Mapping[str, Any]) -> bool:
    """Whether the replica that answered leads and is ready."""
    return bool(status.get("leads")) and bool(status.get("healthy", True))


def status_lines(status: Mapping[str, Any], paint: Painter, *, wide: bool = False) -> list[str]:
    """Returns the view of the cluster as lines."""
    parts = [_health(status, paint), _numbers(status), _waiting(status, paint), _policies(status, paint)]
    if wide:
        parts += [_zones(status, paint), _attempts(status, paint)]
    return [line for part in parts for line in part]


def _health(status: Mapping[str, Any], paint: Painter) -> Iterator[str]:
    replica = status.get("replica") or "the replica that answers"
    leads = f"{replica} leads" if status.get("leads") else f"{replica} does not lead"
    if is_well(status):
        yield paint(f"Berth is healthy: {leads}.", BOLD + GREEN)
        return
    yield paint(f"Berth is not healthy: {leads}.", BOLD + RED)
    for problem in status.get("problems") or []:
        yield f"  {problem}"


def _numbers(status: Mapping[str, Any]) -> Iterator[str]:
    cordoned = status.get("unschedulableNodes")
    nodes = count(status.get("nodes", 0), "node") + (f" ({cordoned} cordoned)" if cordoned else "")
    yield f"{nodes}, {count(status.get('pods', 0), 'pod')} placed, {status.get('pending', 0)} pending"
    used = [f"{one['name']} {one['percent']} %" for one in status.get("resources") or [] if one["name"] in _SHOWN]
    if used:
        yield f"requested: {', '.join(used)}"
    rates = status.get("rates") or {}
    waited = rates.get("medianWaitSeconds")
    median = "" if waited is None else f"; half of the pods waited at most {waited:g} s"
    rate, seconds = rates.get("decisionsPerSecond", 0), rates.get("seconds", 0)
    yield f"{rate:g} placements a second in the last {seconds:g} s{median}"


_SHOWN: Final = ("cpu", "memory", "pods")


def _waiting(status: Mapping[str, Any], paint: Painter) -> Iterator[str]:
    yield ""
    queue, reasons = status.get("queue") or [], status.get("reasons") or []
    if not queue:
        yield "No pod is pending."
        return
    yield from _table(["PENDING", "PODS"], [[one["state"], str(one["pods"])] for one in queue], paint)
    if reasons:
        yield ""
        yield from _table(["REASON", "PODS"], [[one["reason"], str(one["pods"])] for one in reasons], paint)


def _policies(status: Mapping[str, Any], paint: Painter) -> Iterator[str]:
    policies = status.get("policies") or []
    yield ""
    head = ["POLICY", "SCHEDULER NAME", "MODE", "STATE", "GENERATION", "PLACED", "PENDING"]
    rows = [[*_policy(policy)] for policy in policies]
    lines = list(_table(head, rows, paint))
    yield lines[0]
    for policy, line in zip(policies, lines[1:], strict=True):
        yield paint(line, "" if policy.get("state") in SETTLED and not policy.get("problem") else YELLOW)
        yield from _remarks(policy)


def _policy(policy: Mapping[str, Any]) -> Iterator[str]:
    for field in ("name", "schedulerName", "mode", "state"):
        yield str(policy.get(field) or "-")
    latest, active = policy.get("generation", 0), policy.get("activeGeneration", 0)
    yield "-" if not latest else str(latest) if active in (0, latest) else f"{latest} (in force: {active})"
    yield str(policy.get("placed", 0))
    yield str(policy.get("pending", 0))


def _remarks(policy: Mapping[str, Any]) -> Iterator[str]:
    if policy.get("problem"):
        yield f"  {policy['problem']}"
    if policy.get("shadow"):
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in policy["shadow"].items() if count)
        yield f"  would have decided: {outcomes}"


def _zones(status: Mapping[str, Any], paint: Painter) -> Iterator[str]:
    yield ""
    rows = [[zone["zone"] or "<none>", str(zone["nodes"]), *_shares(zone)] for zone in status.get("zones") or []]
    yield from _table(["ZONE", "NODES", *(name.upper() for name in _SHOWN)], rows, paint)


def _shares(zone: Mapping[str, Any]) -> list[str]:
    by_name = {one["name"]: one for one in zone["resources"]}
    return [_share(by_name[name]) if name in by_name else "-" for name in _SHOWN]


def _share(room: Mapping[str, Any]) -> str:
    return f"{room['requested']}/{room['allocatable']} ({room['percent']}%)"


def _attempts(status: Mapping[str, Any], paint: Painter) -> Iterator[str]:
    yield ""
    rows = [[one["result"], str(one["count"])] for one in status.get("attempts") or []]
    yield from _table(["ATTEMPTS", "SINCE THE START"], rows, paint)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], paint: Painter) -> Iterator[str]:
    first, *others = aligned([head, *rows])
    yield paint(first, FAINT)
    yield from others
