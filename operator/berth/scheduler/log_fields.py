"""Fields of log records that name the object: `pod` (namespace/name), `uid`, `node`, `policy`, `kind`.

They are passed as `extra` of a record, for structured logs. They contain names and states only, never anything from an
object's spec.
"""

from berth.model import Pod


def about(pod: Pod | None = None, **more: str) -> dict[str, str]:
    """The fields; empty ones are left out."""
    named = {"kind": "Pod", "pod": pod.key, "uid": pod.uid} if pod is not None else {}
    return named | {field: value for field, value in more.items() if value}
