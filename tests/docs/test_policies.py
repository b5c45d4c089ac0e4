"""docs/policies.md has every field of a SchedulingPolicy."""

from pathlib import Path
from typing import Literal

import pytest

from berth.policy.entries import ENTRY_FIELDS, LIST_OF
from berth.policy.schema import SPEC_FIELDS

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
ROWS = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `spec.")]


@pytest.mark.parametrize("field", SPEC_FIELDS)
def test_a_field_of_the_spec_has_a_row(field: str) -> None:
    assert any(f"`spec.{field}" in row for row in ROWS)


@pytest.mark.parametrize(("point", "field"), [(point, field) for point in LIST_OF for field in ENTRY_FIELDS[point]])
def test_a_field_of_an_entry_has_a_row(point: Literal["filter", "score"], field: str) -> None:
    of_the_list = [row for row in ROWS if f"`spec.{LIST_OF[point]}[]." in row]
    assert any(f".{field}`" in row for row in of_the_list)
