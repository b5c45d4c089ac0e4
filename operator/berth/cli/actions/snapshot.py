"""`berth snapshot`: reads a cluster, and writes what decisions read of it into one file."""

import argparse
import asyncio
from datetime import UTC, datetime

from berth.cli.actions.explaining import tell
from berth.cli.common import FAILED, OK, complain, credentials_source, silence_logs
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.snapshots.anonymising import anonymised
from berth.snapshots.files import is_yaml, render, write_file
from berth.snapshots.reading import MayNotRead, Snapshot, read_snapshot


def run(options: argparse.Namespace) -> int:
    """Writes the file."""
    silence_logs()
    try:
        snapshot = asyncio.run(_read(options))
    except (MayNotRead, ApiError, Unreachable, CredentialsError) as error:
        return complain(f"berth snapshot: {error}", FAILED)
    items = anonymised(snapshot.items) if options.anonymise else snapshot.items
    try:
        write_file(options.output, render(items, datetime.now(UTC), as_yaml=is_yaml(options.output)))
    except OSError as error:
        return complain(f"berth snapshot: {options.output}: cannot be written: {error.strerror or error}", FAILED)
    if snapshot.left_out:
        complain(f"berth snapshot: left out, as you may not list them: {', '.join(snapshot.left_out)}")
    return OK


async def _read(options: argparse.Namespace) -> Snapshot:
    api = Api(Credentials(credentials_source(options)))
    try:
        await api.open()
        return await read_snapshot(api, tell)
    finally:
        await api.close()
