"""`berth snapshot`: everything that decisions read of a cluster, in one file."""

import argparse
import asyncio
from datetime import UTC, datetime
from typing import Final

from berth.cli.common import FAILED, OK, add_credentials, complain, credentials_source, describe, silence_logs
from berth.cli.explaining import tell
from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.errors import ApiError, CredentialsError, Unreachable
from berth.snapshots.anonymising import anonymised
from berth.snapshots.files import is_yaml, render, write_file
from berth.snapshots.reading import MayNotRead, Snapshot, read_snapshot

MORE: Final = """The file is a List of objects, as kubectl prints one: nodes, pods, volumes, claims, budgets, policies
and what else decisions read, with nothing but the fields that they read. There are no environments, commands, addresses
or annotations of pods in it. A name that ends in .yaml gives YAML, in .gz a packed file.

--anonymise replaces all names, labels, taints and images; decisions stay the same. What policies name stays.

examples:
  %(prog)s -o cluster.json.gz
  %(prog)s --anonymise -o for-a-bug-report.json.gz
  berth why web-7d -n shop --snapshot cluster.json.gz

"""


def fill(command: argparse.ArgumentParser) -> None:
    describe(command, "Write everything that decisions read of a cluster into one file.", MORE)
    command.add_argument(
        "-o", "--output", metavar="FILE", default="-", help='where to; "-" is standard output (default: %(default)s)'
    )
    command.add_argument("--anonymise", action="store_true", help="replace names, labels and images")
    add_credentials(command)
    command.set_defaults(command=_snapshot)


def _snapshot(options: argparse.Namespace) -> int:
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
