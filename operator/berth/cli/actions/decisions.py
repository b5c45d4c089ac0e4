"""`berth decisions`: asks the scheduler for its latest placements, and prints them."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from berth.cli.actions.asking import (
    CANNOT_ASK,
    Body,
    SchedulerApi,
    complain_once,
    is_busy,
    namespace_of,
    print_bodies,
    reason_of,
    scheduler_api,
    wait,
)
from berth.cli.common import INTERRUPTED, OK, complain, silence_logs
from berth.explain_api.columns import COLUMNS
from berth.explain_api.resources import DECISIONS, GROUP
from berth.whatif.tables import GAP

POLL_SECONDS: Final = 1.0
ROLES: Final = ("ClusterRole berth-explain-view",)


def run(options: argparse.Namespace) -> int:
    """Prints the placements."""
    silence_logs()
    try:
        asyncio.run(_show(options))
    except CANNOT_ASK as error:
        return complain(f"berth decisions: {reason_of(error, ROLES)}")
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


async def _show(options: argparse.Namespace) -> None:
    namespace = namespace_of(options)
    printer = _Printer(options.output, with_namespace=not namespace, watching=options.watch)
    async with scheduler_api(options) as scheduler:
        known = await _read(scheduler, namespace, options.pod)
        printer.print(known)
        if not known and not options.watch and options.output in (None, "wide"):
            complain("no decisions are remembered" + (f" in namespace {namespace}" if namespace else ""))
        if options.watch:
            await _follow(scheduler, namespace, options.pod, known, printer)


async def _follow(
    scheduler: SchedulerApi, namespace: str, pod: str | None, known: Sequence[Body], printer: "_Printer"
) -> None:
    """Prints what is new, for ever. A moment without a leader is waited out."""
    seen, said = {_identity(body) for body in known}, set[str]()
    while True:
        await wait(POLL_SECONDS)
        try:
            bodies = await _read(scheduler, namespace, pod)
        except CANNOT_ASK as error:
            if not is_busy(error):
                raise
            complain_once(f"berth decisions: {reason_of(error)}; asking until one does", said)
            continue
        printer.print([body for body in bodies if _identity(body) not in seen])
        seen = {_identity(body) for body in bodies}


async def _read(scheduler: SchedulerApi, namespace: str, pod: str | None) -> list[Body]:
    fields = f"status.podName={pod}" if pod else ""
    return sorted(await scheduler.all(DECISIONS.plural, namespace, fields), key=order)


def order(body: Mapping[str, Any]) -> tuple[str, int]:
    """Sorts decisions as they were made: times have whole seconds, so the number in the name decides."""
    number = body["metadata"]["name"].rpartition(".")[2]
    return body["status"]["time"], int(number, 16) if number.isalnum() else 0


def _identity(body: Body) -> tuple[str, str, str]:
    """Another leader begins to count anew, so that a name alone is not enough."""
    return body["metadata"].get("namespace", ""), body["metadata"]["name"], body["status"]["podUID"]


class _Printer:
    """Prints decisions as they come; a table keeps its columns as wide as they were."""

    def __init__(self, output: str | None, *, with_namespace: bool, watching: bool) -> None:
        self._output = output
        self._with_namespace = with_namespace
        self._watching = watching
        self._columns = [column for column in COLUMNS[DECISIONS.plural] if output == "wide" or not column.priority]
        self._widths: list[int] = []

    def print(self, bodies: Sequence[Body]) -> None:
        if self._output == "name":
            for body in bodies:
                print(f"{DECISIONS.singular}.{GROUP}/{body['metadata']['name']}", flush=True)
        elif self._output in ("json", "yaml"):
            self._print_objects(bodies, self._output)
        elif bodies:
            self._print_rows(bodies)

    def _print_objects(self, bodies: Sequence[Body], output: str) -> None:
        if not self._watching:
            print_bodies(bodies, output, as_list=True)
            return
        for body in bodies:  # one object a line, or one document each
            if output == "json":
                print(orjson.dumps(body).decode(), flush=True)
            else:
                print("---", flush=True)
                print_bodies([body], output, as_list=False)

    def _print_rows(self, bodies: Sequence[Body]) -> None:
        now = datetime.now(UTC)
        rows = [self._row(body, now) for body in bodies]
        if not self._widths:
            place = ["NAMESPACE"] if self._with_namespace else []
            rows = [[*place, *(column.name.upper() for column in self._columns)], *rows]
            self._widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, self._widths, strict=True))
            print(GAP.join(cells).rstrip(), flush=True)

    def _row(self, body: Body, now: datetime) -> list[str]:
        cells: list[Any] = [column.cell(body, now) for column in self._columns]
        place = [body["metadata"].get("namespace", "")] if self._with_namespace else []
        return [*place, *map(str, cells)]
