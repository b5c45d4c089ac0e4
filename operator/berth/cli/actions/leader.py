"""`berth leader`: reads the records of the replicas, and prints who leads."""

import argparse
import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from berth.cli.common import NO, OK, complain, credentials_source
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.cluster.leadership import PeerRecord, parse_stamp, read_records
from berth.cluster.peering import KIND, LEADING_SINCE, PATH

LIMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica that is alive."""

    identity: str
    record: PeerRecord
    seen: datetime
    since: datetime | None


def run(options: argparse.Namespace) -> int:
    """Prints the replicas."""
    try:
        body = asyncio.run(_read(options))
    except (CredentialsError, ApiError, Unreachable) as error:
        return complain(f"berth leader: {_explain(error, options.peering_name)}")
    now = datetime.now(UTC)
    seats = read_seats(body, now)
    leading = bool(seats) and seats[0].since is not None
    print(_as_json(seats, leading) if options.output == "json" else as_text(seats, leading, now))
    return OK if leading else NO


async def _read(options: argparse.Namespace) -> dict[str, Any]:
    api = Api(Credentials(credentials_source(options)))
    await api.open()
    try:
        _, body = await api.request("GET", f"{PATH}/{options.peering_name}", timeout_seconds=LIMIT_SECONDS)
        return body
    finally:
        await api.close()


def _explain(error: Exception, name: str) -> str:
    if isinstance(error, ApiError) and error.status == 404:
        return (
            f"there is no {KIND} {name}: no replica has run here without --standalone, or --peering-name is another one"
        )
    return str(error)


def read_seats(body: Any, now: datetime) -> list[ReplicaRow]:
    """Those whose records are not out of date, the most senior first."""
    status = body.get("status") if isinstance(body.get("status"), dict) else {}
    found = []
    for identity, record in read_records(status).items():
        seen = parse_stamp(record.stamp)
        if seen is not None and (now - seen).total_seconds() < record.lifetime_seconds:
            since = status[identity].get(LEADING_SINCE)
            found.append(ReplicaRow(identity, record, seen, parse_stamp(since) if isinstance(since, str) else None))
    return sorted(found, key=lambda seat: (seat.record.priority, seat.identity), reverse=True)


def as_text(seats: list[ReplicaRow], leading: bool, now: datetime) -> str:
    if not seats:
        return "nobody leads, and no replica is alive"
    width = max(48, *(len(seat.identity) + 2 for seat in seats))
    lines = [f"{'':<10}{'IDENTITY':<{width}}{'SINCE':<22}LAST SEEN"]
    if not leading:
        lines.insert(0, "nobody leads yet")
    for place, seat in enumerate(seats):
        role = "leads" if leading and place == 0 else f"standby {place if leading else place + 1}"
        since = seat.since.strftime("%Y-%m-%dT%H:%M:%SZ") if leading and place == 0 and seat.since else "-"
        lines.append(f"{role:<10}{seat.identity:<{width}}{since:<22}{(now - seat.seen).total_seconds():.1f} s ago")
    return "\n".join(lines)


def _as_json(seats: list[ReplicaRow], leading: bool) -> str:
    shown = [_entry(seat, leads=leading and place == 0) for place, seat in enumerate(seats)]
    return json.dumps({"leader": shown[0] if leading else None, "standbys": shown[int(leading) :]}, indent=2)


def _entry(seat: ReplicaRow, *, leads: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "identity": seat.identity,
        "lastSeen": seat.seen.isoformat(),
        "lifetimeSeconds": seat.record.lifetime_seconds,
        "priority": seat.record.priority,
    }
    if leads and seat.since is not None:
        entry["since"] = seat.since.isoformat()
    return entry
