"""Amounts of resources as people write them: 1200m cpu, 3Gi memory."""

from typing import Final

_IN_BYTES: Final = ("memory", "ephemeral-storage")
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def quantity(resource: str, amount: int) -> str:
    """Returns the amount as a Kubernetes quantity that is exactly this amount."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    return in_bytes(amount) if resource in _IN_BYTES or resource.startswith("hugepages-") else str(amount)


def in_bytes(amount: int) -> str:
    """Returns the bytes with the largest binary suffix that needs no fraction."""
    suffix = ""
    for larger in _BINARY:
        if not amount or amount % 1024:
            break
        amount, suffix = amount // 1024, larger
    return f"{amount}{suffix}"
