"""`berth policy lint`: reads policies, and prints everything that is wrong with them."""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson

from berth.cli.common import FAILED, OK, silence_logs
from berth.policy.documents import BadDocument, read_documents, unwrapped
from berth.policy.linting import LISTS, LintFinding, lint
from berth.policy.wording import on_one_line
from berth.shipped import policy_path


def run(options: argparse.Namespace) -> int:
    """Prints the findings."""
    silence_logs()
    unread: list[LintFinding] = []
    documents = [(on_one_line(path), item) for path in options.files for item in read_policies(path, unread)]
    findings = [*unread, *lint(documents)]
    if options.output == "json":
        listed = [dataclasses.asdict(finding) for finding in findings]
        print(orjson.dumps(listed, option=orjson.OPT_INDENT_2).decode())
    else:
        for finding in findings:
            print(finding)
    return FAILED if any(finding.severity == "error" for finding in findings) else OK


def read_policies(path: str, unread: list[LintFinding]) -> Iterator[object]:
    """The documents of a file, lists unwrapped; why there are none becomes a finding."""
    try:
        text = sys.stdin.read() if path == "-" else Path(policy_path(path)).read_text(encoding="utf-8")
        documents = [item for document in read_documents(text) for item in unwrapped(document, LISTS)]
    except (OSError, UnicodeDecodeError) as error:
        unread.append(LintFinding(on_one_line(path), "", "", "error", f"cannot be read: {error}"))
    except BadDocument as error:
        unread.append(LintFinding(on_one_line(path), "", "", "error", str(error)))
    else:
        if not documents:
            unread.append(LintFinding(on_one_line(path), "", "", "error", "has no policy in it"))
        yield from documents
