"""`berth policy lint`: everything that is wrong with policies in files."""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson

from berth.cli.common import FAILED, OK, describe, silence_logs
from berth.policy.documents import BadDocument, read_documents, unwrapped
from berth.policy.linting import LISTS, LintFinding, lint
from berth.policy.wording import on_one_line
from berth.shipped import policy_path

EXAMPLES = """The files are looked at together, as if all of them were applied: a policy may be based on another
one of them, in any order. What is wrong is said with file, policy and field. Policies that get into each
other's way are warned of; that is no failure.

examples:
  %(prog)s mine.yaml
  %(prog)s binpack                                    a policy of the library (berth policy show)
  %(prog)s -o json policies/*.yaml
  kubectl get schedulingpolicies -o yaml | %(prog)s - new.yaml

"""
EXIT_CODES = "exit codes:\n  0  no errors\n  1  errors, all of them said\n  2  usage error\n"


def fill(command: argparse.ArgumentParser) -> None:
    text = "Say everything that is wrong with SchedulingPolicies in files, as the operator would, without a cluster."
    describe(command, text, EXAMPLES, EXIT_CODES)
    command.add_argument(
        "files", metavar="FILE", nargs="+", help='YAML or JSON, or a policy of the library; "-" is standard input'
    )
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="format (default: %(default)s)"
    )
    command.set_defaults(command=_lint)


def _lint(options: argparse.Namespace) -> int:
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
