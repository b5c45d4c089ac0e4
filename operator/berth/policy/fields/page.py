"""docs/policy-fields.md, made from the tables: `python -m berth.policy.fields.page`."""

import sys
from collections.abc import Iterator

from berth.policy.fields.spec_fields import SPEC
from berth.policy.fields.status_fields import STATUS
from berth.policy.fields.types import CelRule, ListField, ObjectField, PolicyField

HEAD = """\
# Fields of a SchedulingPolicy
Every field with its type, its bounds and the text that `kubectl explain sp` shows. This page is made from the code
(`make docs`); [policies.md](policies.md) explains how policies work, with examples.
"""


def page() -> str:
    """Returns the page."""
    return "".join(
        [
            HEAD,
            f"\n## spec\n\n{SPEC.description}\n\n",
            *_table(SPEC, "spec"),
            "\n## Rules\n\nThe API server also enforces these, in CEL; `self` is the object before the rule.\n\n",
            "| where | rule | message |\n|---|---|---|\n",
            *(_rule_row(path, rule) for path, rule in _rules(SPEC, "spec")),
            f"\n## status\n\n{STATUS.description}\n\n",
            *_table(STATUS, "status"),
        ]
    )


def _table(table: ObjectField, path: str) -> Iterator[str]:
    yield "| field | type | meaning |\n|---|---|---|\n"
    for where, field, required in _fields(table, path):
        kind = field.wording() + (", required" if required else "")
        yield f"| `{where}` | {kind} | {_cell(field.description)} |\n"


def _fields(table: ObjectField, path: str) -> Iterator[tuple[str, PolicyField, bool]]:
    """Yields every field below the table, with its path and whether it is required."""
    for name, field in table.fields.items():
        where = f"{path}.{name}"
        yield where, field, name in table.required
        inner = field.items if isinstance(field, ListField) else field
        if isinstance(inner, ObjectField):
            yield from _fields(inner, f"{where}[]" if isinstance(field, ListField) else where)


def _rules(field: PolicyField, path: str) -> Iterator[tuple[str, CelRule]]:
    yield from ((path, rule) for rule in field.rules)
    if isinstance(field, ListField):
        yield from _rules(field.items, f"{path}[]")
    elif isinstance(field, ObjectField):
        for name, inner in field.fields.items():
            yield from _rules(inner, f"{path}.{name}")


def _rule_row(path: str, rule: CelRule) -> str:
    return f"| `{path}` | `{_cell(rule.rule)}` | {_cell(rule.message)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
