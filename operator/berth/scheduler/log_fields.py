"""Whom a line of the log is about, as fields beside its words: `pod` (namespace/name), `uid`, `node`, `policy`, `kind`.

They are handed over as `extra` of a record, for those who read logs with machines. Names and states only: nothing that
an object's spec says is ever among them.
"""

from berth.model import Pod


def about(pod: Pod | None = None, **more: str) -> dict[str, str]:
    """The fields; those that are empty are left out."""
    named = {"kind": "Pod", "pod": pod.key, "uid": pod.uid} if pod is not None else {}
    return named | {field: value for field, value in more.items() if value}
