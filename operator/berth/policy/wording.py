"""Values of manifests in messages: as their writer knows them, and never longer than a message can bear."""

from collections.abc import Mapping


def show(value: object) -> str:
    """The value as a reader of the manifest knows it, cut to a length that fits into a message."""
    if isinstance(value, str):
        return f'"{cut(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge number"  # Python refuses to print the largest integers
    return cut(repr(value))


def cut(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
