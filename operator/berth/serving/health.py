"""Health: is the process alive, is it ready, and if not, what is it waiting for.

`/livez` and `/healthz` are fine as long as the event loop turns, which an answer proves, and the scheduling loop has
not failed. `/readyz` is ready once every kind's first list is whole and decisions are made; `?verbose` lists every
kind, in the format of the Kubernetes components.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Readiness:
    """Kind to "ok" or to what it is waiting for, and whether decisions are being made."""

    kinds: Mapping[str, str]
    is_open: bool

    @property
    def is_ready(self) -> bool:
        return self.is_open and all(state == "ok" for state in self.kinds.values())

    def text(self, *, verbose: bool) -> str:
        """The body of the answer."""
        if self.is_ready and not verbose:
            return "ok"
        lines = [_line(kind, state) for kind, state in sorted(self.kinds.items())]
        lines.append(_line("scheduler", "ok" if self.is_open else "makes no decisions yet"))
        lines.append(f"readyz check {'passed' if self.is_ready else 'failed'}")
        return "\n".join(lines) + "\n"


def _line(check: str, state: str) -> str:
    return f"[+]{check} ok" if state == "ok" else f"[-]{check} failed: {state}"
