"""The pods of cases in a file, in the format of `berth judge`; the configurations of the cases are not looked at."""

from collections.abc import Iterable, Iterator

from berth.comparing.differences import Skipped
from berth.comparing.outcomes import Subject
from berth.judge.cases import CannotJudge, cluster_of, read_cases
from berth.model import InvalidObject, parse_pod


def case_subjects(lines: Iterable[str]) -> Iterator[Subject | Skipped]:
    for number, case in enumerate(read_cases(lines), 1):
        name = str(case.get("id") or f"case {number}")
        if "error" in case:
            yield Skipped(name, str(case["error"]))
            continue
        try:
            subject = Subject(name, parse_pod(case.get("pod") or {}), cluster_of(case).state)
        except (CannotJudge, InvalidObject) as error:
            yield Skipped(name, str(error))
        else:
            yield subject
