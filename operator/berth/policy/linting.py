"""What the operator would say of policies that are not applied yet, all of them together.

They are put on a shelf of the operator's own, so that what is found is what it finds: a policy may be based on another
one of them, in whichever file and order they are. Besides errors there are warnings, of policies that get into each
other's way, and that an operator with default settings would refuse.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from berth.policy.compile import load_policy
from berth.policy.contest import Contest
from berth.policy.defaults import OWN_BASES
from berth.policy.limits import DEFAULT_LIMITS
from berth.policy.reading import Note, did_you_mean, is_object_name, read_mapping, refuse_unknown
from berth.policy.records import Mode, PolicyError, Problem
from berth.policy.schema import API_VERSION, KIND, SPEC_FIELDS
from berth.policy.shelf import Page, Shelf, identity_of
from berth.policy.wording import cut, list_names, on_one_line, show

LISTS = ("List", "SchedulingPolicyList")  # as kubectl prints several policies
HEAD_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA_FIELDS = (
    "name",
    "labels",
    "annotations",
    "namespace",
    "generateName",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "managedFields",
    "ownerReferences",
    "selfLink",
)

Severity = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a policy, in a file; or, with severity "ok", that there is no error in it."""

    file: str
    policy: str
    field: str
    severity: Severity
    message: str

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.policy, self.field) if part)
        kind = "warning: " if self.severity == "warning" else ""
        return on_one_line(f"{where}: {kind}{self.message or 'ok'}")


def lint(documents: Iterable[tuple[str, object]]) -> list[Finding]:
    """Everything there is to say of the documents, each with the name of the file that it is in; never raises."""
    listed = list(documents)
    shelf = Shelf()
    files: dict[str, str] = {}
    for file, document in listed:
        name = identity_of(document)[0] if isinstance(document, Mapping) else ""
        if isinstance(document, Mapping) and name and name not in files:
            files[name] = file
            shelf.observe(document)
    contest = _contest(shelf)
    told: set[str] = set()
    findings: list[Finding] = []
    for file, document in listed:
        findings += _lint_document(file, document, shelf, contest, files, told)
    return findings


def _lint_document(
    file: str, document: object, shelf: Shelf, contest: Contest, files: Mapping[str, str], told: set[str]
) -> Iterator[Finding]:
    if not isinstance(document, Mapping):
        yield Finding(file, "", "", "error", "is not an object; a policy begins with apiVersion and kind")
        return
    name = identity_of(document)[0]
    problems = _check_head(document, name)
    if name in told:
        problems.append(Problem("metadata.name", f"there is a policy {name} already, in {files[name]}"))
    elif name:
        told.add(name)
        problems += _problems(shelf.pages[name], shelf)
    else:
        problems += _problems_of_unnamed(document)
    for problem in problems:
        yield Finding(file, name, problem.field, "error", problem.message)
    if not problems:
        yield Finding(file, name, "", "ok", "")
        for refusal in _limits(shelf.pages.get(name)):
            yield Finding(file, name, refusal.field, "warning", f"refused under default settings: {refusal.message}")
        for message in _warnings(name, contest):
            yield Finding(file, name, "", "warning", message)


def _check_head(document: Mapping[str, object], name: str) -> list[Problem]:
    """What the API server asks of a manifest, and the operator, who has it from there, need not."""
    problems: list[Problem] = []

    def note(where: str, message: str) -> None:
        problems.append(Problem(where.removeprefix("."), message))

    for field, ours in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(field) is None:
            note(field, f"is required: {ours}")
    for key in document:
        if key in SPEC_FIELDS:
            note(str(key), f"unknown field: it belongs into spec, as spec.{key}")
    refuse_unknown({key: 0 for key in document if key not in SPEC_FIELDS}, HEAD_FIELDS, "", note)
    metadata = document.get("metadata")
    _check_metadata(metadata if isinstance(metadata, Mapping) else {}, note)
    if name and not is_object_name(name):
        note("metadata.name", f'{show(name)} is not the name of an object: lower-case letters, digits, "-", "."')
    return problems


def _check_metadata(metadata: Mapping[str, object], note: Note) -> None:
    refuse_unknown(metadata, METADATA_FIELDS, "metadata", note)
    for field in ("labels", "annotations"):
        where, texts = f"metadata.{field}", metadata.get(field)
        if texts is None:
            continue
        for key, value in read_mapping(texts, where, note).items():
            for text in (key, value):
                if not isinstance(text, str):
                    note(f"{where}.{cut(str(key))}", f"{show(text)} is not a text; put it in quotes")


def _problems(page: Page, shelf: Shelf) -> Iterator[Problem]:
    for problem in page.problems:
        if problem.field == "spec.base" and page.base is not None and page.base not in shelf.pages:
            hint = did_you_mean(page.base, (*OWN_BASES, *shelf.pages))
            message = (
                f"no policy {page.base} among the files{hint or ': lint the file that it is in along with this one'}"
            )
            yield Problem(problem.field, message)
        else:
            yield problem


def _problems_of_unnamed(document: Mapping[str, object]) -> tuple[Problem, ...]:
    try:
        load_policy(document)
    except PolicyError as error:
        return error.problems
    return ()


def _limits(page: Page | None) -> Iterator[Problem]:
    """What an operator refuses unless its settings allow it; here nobody knows its settings."""
    if page is not None and page.last_good is not None:
        yield from DEFAULT_LIMITS.refusals(page.last_good.policy, page.base)


def _contest(shelf: Shelf) -> Contest:
    contest = Contest()
    for page in shelf.pages.values():
        if page.last_good is not None and page.mode is Mode.ACTIVE:
            contest.enter(page.last_good.policy)
    return contest


def _warnings(name: str, contest: Contest) -> Iterator[str]:
    superseder = contest.superseder(name)
    others = [rival for rival in contest.rivals(name) if rival != superseder]
    if superseder is not None:
        yield f"never decides: {superseder} comes first for every pod that it matches"
    if others:
        yield (
            f"some pods may match {list_names(others)} as well, of the same rank: then the first by name decides; "
            "more selectors, or more requirements in them, come first"
        )
