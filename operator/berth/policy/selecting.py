"""Label selectors of a policy, read as strictly as the API server reads those of pods.

    podSelector:
      matchLabels: {team: research}
      matchExpressions: [{key: tier, operator: NotIn, values: [test]}]

A selector that is there but empty selects everything.
"""

import re
from collections.abc import Iterator, Mapping

from berth.model import LabelSelector, Requirement, make_label_selector
from berth.model.selectors import LABEL_OPERATORS
from berth.policy.fields.selector_fields import (
    DNS_NAME,
    LABEL_NAME,
    REQUIREMENT,
    REQUIREMENTS_MAX,
    SELECTOR_FIELDS,
    VALUE_MAX_LENGTH,
    VALUES_MAX,
)
from berth.policy.reading import Note, read_list, read_mapping, read_optional, refuse_unknown
from berth.policy.wording import cut, show

_PREFIX = re.compile(DNS_NAME)
_NAME = re.compile(LABEL_NAME)


def read_selector(value: object, where: str, note: Note) -> LabelSelector | None:
    """Returns the selector; None if there is none."""
    if value is None:
        return None
    body = read_optional(value, where, SELECTOR_FIELDS, note)
    labels, listed = f"{where}.matchLabels", f"{where}.matchExpressions"
    requirements = [*_labels(body.get("matchLabels"), labels, note)]
    for index, item in enumerate(read_list(body.get("matchExpressions"), listed, REQUIREMENTS_MAX, note)):
        requirements += _requirement(item, f"{listed}[{index}]", note)
    return make_label_selector(requirements)


def _labels(value: object, where: str, note: Note) -> Iterator[Requirement]:
    body = {} if value is None else read_mapping(value, where, note)
    if len(body) > REQUIREMENTS_MAX:
        note(where, f"has {len(body)} entries, may have {REQUIREMENTS_MAX}")
        return
    for key, label in body.items():
        if _is_key(key, where, note) and _is_value(label, f"{where}.{cut(key)}", note):
            yield Requirement(key, "In", (str(label),))


def _requirement(item: object, where: str, note: Note) -> Iterator[Requirement]:
    body = read_mapping(item, where, note)
    if not isinstance(item, Mapping):
        return
    refuse_unknown(body, REQUIREMENT.names, where, note)
    key, operator = body.get("key"), body.get("operator")
    good = _is_key(key, f"{where}.key", note)
    if operator not in LABEL_OPERATORS:
        given = "is required: one of" if operator is None else f"{show(operator)} is not one of"
        note(f"{where}.operator", f"{given} {', '.join(LABEL_OPERATORS)}")
        return
    values = _values(body.get("values"), str(operator), f"{where}.values", note)
    if good and values is not None:
        yield Requirement(str(key), str(operator), values)


def _values(value: object, operator: str, where: str, note: Note) -> tuple[str, ...] | None:
    listed = read_list(value, where, VALUES_MAX, note, "values")
    needs = operator in ("In", "NotIn")
    if needs and (value is None or value == []):
        note(where, f"must not be empty with {operator}")
    elif not needs and listed:
        note(where, f"must be empty with {operator}")
    else:
        good = [_is_value(item, f"{where}[{index}]", note) for index, item in enumerate(listed)]
        return tuple(sorted({str(item) for item in listed})) if all(good) else None
    return None


def _is_key(key: object, where: str, note: Note) -> bool:
    """Whether it is an optional DNS name of at most 253 characters, a slash, and a name of at most 63."""
    if not isinstance(key, str) or not key:
        note(where, "is required: the key of a label" if key is None else f"{show(key)} cannot be the key of a label")
        return False
    prefix, slash, name = key.rpartition("/")
    if (slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix))) or not (
        len(name) <= 63 and _NAME.fullmatch(name)
    ):
        note(where, f"{show(key)} cannot be the key of a label")
        return False
    return True


def _is_value(value: object, where: str, note: Note) -> bool:
    if not isinstance(value, str):
        note(where, f"{show(value)} is not a text; put it in quotes")
    elif value and not (len(value) <= VALUE_MAX_LENGTH and _NAME.fullmatch(value)):
        note(where, f"{show(value)} cannot be the value of a label")
    else:
        return True
    return False
