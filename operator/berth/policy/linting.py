"""What the operator would say about policies that are not applied yet, all of them together.

They are loaded by the operator's own `PolicyObjects`, so that the findings are the operator's. A policy may be based on
another one of them, whatever file it is in and in any order. Besides errors there are warnings: of policies that
conflict with each other, of policies that an operator with default settings would refuse, and of expressions that fail
on some nodes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from berth.policy.compile import load_policy
from berth.policy.conflicts import Conflicts
from berth.policy.defaults import OWN_BASES
from berth.policy.expressions.language import find_traps
from berth.policy.fields.spec_fields import KIND
from berth.policy.limits import DEFAULT_LIMITS
from berth.policy.policy_objects import PolicyObjects, PolicyRecord, identity_of
from berth.policy.reading import Note, did_you_mean, is_object_name, read_mapping, refuse_unknown
from berth.policy.records import Mode, PolicyError, Problem
from berth.policy.schema import API_VERSION, SPEC_FIELDS
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
class LintFinding:
    """A finding about a policy in a file; severity "ok": the policy has no error."""

    file: str
    policy: str
    field: str
    severity: Severity
    message: str

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.policy, self.field) if part)
        kind = "warning: " if self.severity == "warning" else ""
        return on_one_line(f"{where}: {kind}{self.message or 'ok'}")


def lint(documents: Iterable[tuple[str, object]]) -> list[LintFinding]:
    """Returns the findings about the documents, each given with the name of its file; never raises."""
    listed = list(documents)
    objects = PolicyObjects()
    files: dict[str, str] = {}
    for file, document in listed:
        name = identity_of(document)[0] if isinstance(document, Mapping) else ""
        if isinstance(document, Mapping) and name and name not in files:
            files[name] = file
            objects.observe(document)
    conflicts = _conflicts(objects)
    told: set[str] = set()
    findings: list[LintFinding] = []
    for file, document in listed:
        findings += _lint_document(file, document, objects, conflicts, files, told)
    return findings


def _lint_document(
    file: str, document: object, objects: PolicyObjects, conflicts: Conflicts, files: Mapping[str, str], told: set[str]
) -> Iterator[LintFinding]:
    if not isinstance(document, Mapping):
        yield LintFinding(file, "", "", "error", "is not an object; a policy begins with apiVersion and kind")
        return
    name = identity_of(document)[0]
    problems = _check_head(document, name)
    if name in told:
        problems.append(Problem("metadata.name", f"there is a policy {name} already, in {files[name]}"))
    elif name:
        told.add(name)
        problems += _problems(objects.records[name], objects)
    else:
        problems += _problems_of_unnamed(document)
    for problem in problems:
        yield LintFinding(file, name, problem.field, "error", problem.message)
    if not problems:
        yield LintFinding(file, name, "", "ok", "")
        for refusal in _limits(objects.records.get(name)):
            message = f"refused under default settings: {refusal.message}"
            yield LintFinding(file, name, refusal.field, "warning", message)
        for trap in expression_traps(document.get("spec")):
            yield LintFinding(file, name, trap.field, "warning", trap.message)
        for message in conflict_warnings(conflicts.superseder(name), conflicts.rivals(name)):
            yield LintFinding(file, name, "", "warning", message)


def _check_head(document: Mapping[str, object], name: str) -> list[Problem]:
    """Returns what the API server would refuse; the operator itself never sees such an object."""
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


def _problems(record: PolicyRecord, objects: PolicyObjects) -> Iterator[Problem]:
    for problem in record.problems:
        if problem.field == "spec.base" and record.base is not None and record.base not in objects.records:
            hint = did_you_mean(record.base, (*OWN_BASES, *objects.records))
            message = (
                f"no policy {record.base} among the files{hint or ': lint the file that it is in along with this one'}"
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


def _limits(record: PolicyRecord | None) -> Iterator[Problem]:
    """Returns what an operator refuses by default; its settings are not known here."""
    if record is not None and record.last_good is not None:
        yield from DEFAULT_LIMITS.refusals(record.last_good.policy, record.base)


def expression_traps(spec: object) -> Iterator[Problem]:
    """Yields what fails on some nodes or for some pods, of the expressions in a policy without errors."""
    for field in ("predicates", "priorities"):
        entries = spec.get(field) if isinstance(spec, Mapping) else None
        for place, entry in enumerate(entries or ()):
            if "expression" in entry and entry.get("enabled", True):
                for trap in find_traps(entry["expression"]):
                    yield Problem(f"spec.{field}[{place}].expression", trap)


def _conflicts(objects: PolicyObjects) -> Conflicts:
    conflicts = Conflicts()
    for record in objects.records.values():
        if record.last_good is not None and record.mode is Mode.ACTIVE:
            conflicts.enter(record.last_good.policy)
    return conflicts


def conflict_warnings(superseder: str | None, rivals: Iterable[str]) -> Iterator[str]:
    """Returns what the author of a policy should know of other policies that match the same pods."""
    others = [rival for rival in rivals if rival != superseder]
    if superseder is not None:
        yield f"never decides: {superseder} comes first for every pod that it matches"
    if others:
        yield (
            f"some pods may match {list_names(others)} as well, of the same rank: then the first by name decides; "
            "more selectors, or more requirements in them, come first"
        )
