"""Amounts of resources as people write them: 1200m cpu, 3Gi memory."""

from typing import Final

_IN_BYTES: Final = ("memory", "ephemeral-storage")
_MI: Final = 2**20
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def quantity(resource: str, amount: int) -> str:
    """Returns the amount as a Kubernetes quantity that is exactly this amount."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    return in_bytes(amount) if _is_in_bytes(resource) else str(amount)


def rounded(resource: str, amount: int, *, up: bool) -> int:
    """Returns the amount rounded to whole Mi if it is in bytes and at least ten Mi, so that people can read it."""
    if not _is_in_bytes(resource) or abs(amount) < 10 * _MI:
        return amount
    return -(-amount // _MI) * _MI if up else amount // _MI * _MI


def _is_in_bytes(resource: str) -> bool:
    return resource in _IN_BYTES or resource.startswith("hugepages-")


def in_bytes(amount: int) -> str:
    """Returns the bytes with the largest binary suffix that needs no fraction."""
    suffix = ""
    for larger in _BINARY:
        if not amount or amount % 1024:
            break
        amount, suffix = amount // 1024, larger
    return f"{amount}{suffix}"
