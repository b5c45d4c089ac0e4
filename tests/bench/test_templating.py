"""The part of Go's templates that scheduler_perf uses."""

from __future__ import annotations

import pytest

from bench.perf.templating import TemplateError, has_actions, render

VALUES = {"Index": 25, "Count": 40}


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("pod-{{ .Index }}", "pod-25"),
        ("pod-{{.Index}}-of-{{.Count}}", "pod-25-of-40"),
        ("{{ DivideInt 30000 .Count }}Mi", "750Mi"),
        ("{{ DivideInt .Index 10 }}", "2"),
        ("8{{ Mod .Index 12 }}", "81"),
        ("{{ DivideFloat 1 4 }}", "0.25"),
        ("{{ AddInt .Index 1 2 }}", "28"),
        ("{{ SubtractInt 1 .Index }}", "-24"),
        ("{{ MultiplyInt .Index 2 }}", "50"),
        ("{{ AddFloat 0.5 1.5 }}", "2"),
        ('{{ AddInt "7" (Mod .Index 10) }}', "12"),
        ("{{ Mod -7 3 }}", "-1"),
        ("nothing to do", "nothing to do"),
    ],
)
def test_actions_are_replaced_by_their_values(template: str, rendered: str) -> None:
    assert render(template, VALUES) == rendered


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ .Name }}", ".Name is not known"),
        ("{{ range .Items }}", "range is not a function"),
        ("{{ .Index | printf }}", "is not interpreted"),
        ("{{ .Index .Count }}", "is not expected"),
        ("{{ DivideInt 1 0 }}", "division by zero"),
        ("{{ Mod 1 0 }}", "Mod"),
        ("{{ Mod 1 }}", "Mod"),
        ("{{ AddInt (Mod 1 2 }}", "not closed"),
        ('{{ AddInt "x" }}', "x is not a number"),
        ("{{ }}", "empty"),
    ],
)
def test_what_is_not_interpreted_is_an_error(template: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said.replace("(", r"\(")):
        render(template, VALUES)


def test_a_text_without_actions_is_known_as_one() -> None:
    assert has_actions("a-{{ .Index }}")
    assert not has_actions("a-{ .Index }")
