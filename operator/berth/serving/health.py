"""Health: is the process alive, is it ready, and if not, what is it waiting for.

`/livez` and `/healthz` fail when the process must be restarted: the event loop hangs, the scheduling loop has failed,
or another alarm says so. Alarms are called in the serving thread, because a loop that hangs cannot answer. `/readyz` is
ready once every kind is synced and decisions are made, here or by the replica that leads, and no other check fails. It
is called in the scheduler's loop. `?verbose` lists every check, in the format of the Kubernetes components.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Alarm = Callable[[], str | None]
"""Returns why the process must be restarted, or None; called in the serving thread."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: a problem or None. A note is only shown."""

    problem: str | None = None
    note: str = ""


Check = Callable[[], Finding]
"""Called in the scheduler's loop."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Kind to "ok" or to what it is waiting for, whether decisions are being made, and further findings by name."""

    kinds: Mapping[str, str]
    is_open: bool
    findings: Mapping[str, Finding] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        return all(finding.problem is None for finding in self.all().values())

    def all(self) -> dict[str, Finding]:
        """Returns every finding, in the order of the page."""
        waiting = [kind for kind, state in self.kinds.items() if state != "ok"]
        return {
            **{kind: _read(state) for kind, state in sorted(self.kinds.items())},
            "cache": Finding(f"kinds not synced: {len(waiting)} of {len(self.kinds)}") if waiting else Finding(),
            "scheduler": Finding(None if self.is_open else "makes no decisions yet"),
            **self.findings,
        }

    def text(self, *, verbose: bool) -> str:
        """The body of the answer."""
        return _report("readyz", self.all(), verbose=verbose)


def liveness(alarms: Mapping[str, Alarm]) -> dict[str, Finding]:
    """Returns the finding of each alarm; one that raises is no reason to restart the process."""
    return {name: _ask(alarm) for name, alarm in list(alarms.items())}


def _ask(alarm: Alarm) -> Finding:
    try:
        return Finding(alarm())
    except Exception as error:
        return Finding(note=f"cannot be judged: {error!r}")


def liveness_text(path: str, findings: Mapping[str, Finding], *, verbose: bool) -> str:
    return _report(path.strip("/"), findings, verbose=verbose)


def _report(title: str, findings: Mapping[str, Finding], *, verbose: bool) -> str:
    """Returns `ok`, or one line for each check if one failed or with `verbose`."""
    passed = all(finding.problem is None for finding in findings.values())
    if passed and not verbose:
        return "ok"
    lines = [_line(name, finding) for name, finding in findings.items()]
    return "\n".join([*lines, f"{title} check {'passed' if passed else 'failed'}"]) + "\n"


def _line(check: str, finding: Finding) -> str:
    if finding.problem is not None:
        return f"[-]{check} failed: {finding.problem}"
    return f"[+]{check} ok" + (f": {finding.note}" if finding.note else "")


def _read(state: str) -> Finding:
    return Finding() if state == "ok" else Finding(state)
