"""`berth policy lint`: reads policies, and prints everything that is wrong with them."""

import argparse
import dataclasses
import glob
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from berth.cli.common import FAILED, OK, silence_logs
from berth.policy.documents import BadDocument, read_documents, unwrapped
from berth.policy.fields.spec_fields import KIND
from berth.policy.linting import LISTS, LintFinding, lint
from berth.policy.reading import did_you_mean
from berth.policy.wording import on_one_line
from berth.shipped import policy_files, policy_path

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read; `is_named`: by the user, and not found in a folder, where other manifests may be as well."""

    path: str
    is_named: bool


def run(options: argparse.Namespace) -> int:
    """Prints the findings."""
    silence_logs()
    unread: list[LintFinding] = []
    files = {_identity(file.path): file for text in options.files for file in _files(text, unread)}
    documents = [(on_one_line(file.path), item) for file in files.values() for item in _policies(file, unread)]
    findings = [*unread, *lint(documents)]
    if options.output == "json":
        listed = [dataclasses.asdict(finding) for finding in findings]
        print(orjson.dumps(listed, option=orjson.OPT_INDENT_2).decode())
    else:
        for finding in findings:
            print(finding)
    return FAILED if any(finding.severity == "error" for finding in findings) else OK


def _files(text: str, unread: list[LintFinding]) -> Iterator[_File]:
    """Yields the files that an argument means; why there are none becomes a finding."""
    if Path(text).is_dir():
        found = sorted(str(file) for file in Path(text).rglob("*") if file.suffix in SUFFIXES)
        if not found:
            unread.append(_error(text, f"has no file in it that ends in {', '.join(SUFFIXES)}"))
        yield from (_File(path, is_named=False) for path in found)
    elif text == "-" or Path(policy_path(text)).exists():
        yield _File(text, is_named=True)
    elif glob.has_magic(text):
        matching = sorted(glob.glob(text, recursive=True))
        if not matching:
            unread.append(_error(text, "matches no file"))
        for path in matching:
            yield from _files(path, unread)
    else:
        hint = did_you_mean(text, tuple(policy_files()))
        unread.append(_error(text, f"is no file, and no policy of the library (berth policy show){hint}"))


def _identity(path: str) -> str:
    """A file that is named twice, by itself and in a folder for example, is read once."""
    return path if path == "-" else str(Path(policy_path(path)).resolve())


def _policies(file: _File, unread: list[LintFinding]) -> list[object]:
    documents = _read_file(file.path, unread)
    if file.is_named and documents == []:
        unread.append(_error(file.path, "has no policy in it"))
    return [document for document in documents or () if file.is_named or _may_be_a_policy(document)]


def _may_be_a_policy(document: object) -> bool:
    return not isinstance(document, Mapping) or document.get("kind") in (None, KIND)


def _read_file(path: str, unread: list[LintFinding]) -> list[object] | None:
    """Returns the documents of a file, lists unwrapped; None if it cannot be read."""
    try:
        text = sys.stdin.read() if path == "-" else Path(policy_path(path)).read_text(encoding="utf-8")
        return [item for document in read_documents(text) for item in unwrapped(document, LISTS)]
    except (OSError, UnicodeDecodeError) as error:
        unread.append(_error(path, f"cannot be read: {error}"))
    except BadDocument as error:
        unread.append(_error(path, str(error)))
    return None


def _error(path: str, message: str) -> LintFinding:
    return LintFinding(on_one_line(path), "", "", "error", message)
