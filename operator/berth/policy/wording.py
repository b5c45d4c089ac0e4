"""Values of manifests in messages: as they are in the manifest, and cut to a length that fits."""

from collections.abc import Mapping, Sequence


def show(value: object) -> str:
    """Returns the value as it is in the manifest, cut to a length that fits into a message."""
    if isinstance(value, str):  # on one line, whatever is in it
        return f'"{cut(value if value.isprintable() else value.encode("unicode_escape").decode())}"'
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


def on_one_line(text: str) -> str:
    """Returns the text safe for a terminal: control characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def cut(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def count(number: int, noun: str) -> str:
    """Returns "1 node", "2 nodes"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_names(names: Sequence[str], most: int = 5) -> str:
    """Returns the first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
