"""`berth leader`: which replica leads, since when, and who would be next."""

import argparse
import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from berth.cli.common import OK, add_credentials, complain, credentials_source, describe, object_name
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.cluster.leadership import PeerRecord, parse_stamp, read_records
from berth.cluster.peering import KIND, LEADING_SINCE, PATH
from berth.configuration import Options

NOBODY = 3
PEERING_NAME = Options().peering_name
LIMIT_SECONDS = 10.0

MORE = """The replicas keep records in one ClusterKopfPeering object. Shown are those that are not out of date, by the
clock of this machine, in the order in which they would lead. A replica that is about to take over does not lead yet:
when a leader is killed that takes about a lifetime, when it is stopped less than a second.

examples:
  %(prog)s
  %(prog)s -o json | jq -r .leader.identity
  until %(prog)s >/dev/null; do sleep 1; done          wait until a replica leads

"""
EXIT_CODES = """exit codes:
  0  a replica leads
  1  it failed; standard error says why
  2  usage error
  3  nobody leads
"""


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica that is alive."""

    identity: str
    record: PeerRecord
    seen: datetime
    since: datetime | None


def fill(leader: argparse.ArgumentParser) -> None:
    text = "Show which replica leads, since when, when it was last seen, and who stands by."
    describe(leader, text, MORE, EXIT_CODES)
    add_credentials(leader)
    leader.add_argument(
        "--peering-name",
        metavar="NAME",
        type=object_name,
        default=PEERING_NAME,
        help=f"the ClusterKopfPeering object that the replicas were given (default: {PEERING_NAME})",
    )
    leader.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default: text)")
    leader.set_defaults(command=_leader)


def _leader(options: argparse.Namespace) -> int:
    try:
        body = asyncio.run(_read(options))
    except (CredentialsError, ApiError, Unreachable) as error:
        return complain(f"berth leader: {_explain(error, options.peering_name)}")
    now = datetime.now(UTC)
    seats = read_seats(body, now)
    leading = bool(seats) and seats[0].since is not None
    print(_as_json(seats, leading) if options.output == "json" else _as_text(seats, leading, now))
    return OK if leading else NOBODY


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


def _as_text(seats: list[ReplicaRow], leading: bool, now: datetime) -> str:
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
