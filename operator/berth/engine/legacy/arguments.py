"""Parsing of the arguments of legacy plugins: labels and flags."""

from collections.abc import Mapping
from typing import Any

from berth.engine.plugin import BadArgument
from berth.engine.plugins.common.allocation import require_list


def require_label(args: Mapping[str, Any], field: str) -> str:
    label = args.get(field)
    if not isinstance(label, str) or not label:
        raise BadArgument(field, "is required: the key of a node label" if label is None else "must be a label's key")
    return label


def require_labels(args: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Returns keys of labels, each once; an empty list is valid and requires nothing."""
    if field not in args:
        raise BadArgument(field, "is required: keys of node labels")
    labels = require_list(args[field], field)
    for index, label in enumerate(labels):
        if not isinstance(label, str) or not label:
            raise BadArgument(f"{field}[{index}]", "must be a label's key")
    return tuple(dict.fromkeys(labels))


def require_flag(args: Mapping[str, Any], field: str) -> bool:
    flag = args.get(field, False)
    if not isinstance(flag, bool):
        raise BadArgument(field, "must be true or false")
    return flag
