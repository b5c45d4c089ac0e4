"""Quantities are read as Kubernetes reads them; the expectations are what its own parser answers."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.model import parse_quantity, to_milli, to_value
from berth.model.quantity import MAX_INT64, MAX_NANOS, NANO

READ = {
    "0": 0,
    "1": NANO,
    "+1": NANO,
    "-1": -NANO,
    "007": 7 * NANO,
    "5.": 5 * NANO,
    ".5": NANO // 2,
    "1.5": 3 * NANO // 2,
    "100n": 100,
    "1u": 1000,
    "100m": NANO // 10,
    "0.1m": 100_000,
    "1k": 10**3 * NANO,
    "1M": 10**6 * NANO,
    "1G": 10**9 * NANO,
    "1T": 10**12 * NANO,
    "1P": 10**15 * NANO,
    "1E": 10**18 * NANO,
    "1E3": 1000 * NANO,
    "1e3": 1000 * NANO,
    "1e+3": 1000 * NANO,
    "1E-3": NANO // 1000,
    "2e9": 2 * 10**9 * NANO,
    "12e3": 12_000 * NANO,
    "1Ki": 1024 * NANO,
    "1.5Gi": 1_610_612_736 * NANO,
    "0.5Ki": 512 * NANO,
    "1Mi": 2**20 * NANO,
    "1Ti": 2**40 * NANO,
    "1Pi": 2**50 * NANO,
    "1.25Ei": 5 * 2**58 * NANO,
    " 1 ": NANO,
}


@pytest.mark.parametrize(("text", "nanos"), READ.items())
def test_a_quantity_is_read_exactly(text: str, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(
    ("text", "nanos"),
    {"0.1n": 1, "-0.1n": -1, "1.5n": 2, "1e-10": 1, "1e-1000000000": 1, "1.0000000001": NANO + 1}.items(),
)
def test_what_is_finer_than_a_nano_is_rounded_away_from_zero(text: str, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize("text", ["9Ei", "8Ei", "9223372036854775807Ki", "9223372036854775808", "1e30", "1e2000000000"])
def test_what_is_beyond_64_bits_is_capped(text: str) -> None:
    assert parse_quantity(text) == MAX_NANOS
    assert parse_quantity(f"-{text}") == -MAX_NANOS
    assert to_value(parse_quantity(text)) == to_milli(parse_quantity(text)) == MAX_INT64


@pytest.mark.parametrize("text", ["+", "-", ".", "+.", "Ki", "Ti", "m", "e3", "0Ei", "00Pi", "0e-20"])
def test_nothing_but_a_unit_is_zero(text: str) -> None:
    assert parse_quantity(text) == 0


GARBAGE = [
    "",
    " ",
    "x",
    "1x",
    "1e",
    "1e+",
    "1e3k",
    "1i",
    "1mi",
    "1K",
    "1kk",
    "KiKi",
    "1Ki5",
    "1_0",
    "0x10",
    "--1",
    "1.1.1",
    "1 2",
    "Pi",
    "Ei",
    ".Pi",
    "e-10",
    "1e99999999999999999999",
    "nan",
    "inf",
    "NaN",
    "-inf",
    "1,5",
    "\u0661",
    "1\n2",
    "1" * 5000,
]


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the text of the error is the caller's
        parse_quantity(text)


@pytest.mark.parametrize("value", [None, True, False, [], {}, b"1", float("nan"), float("inf")])
def test_what_is_no_text_or_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_quantity(value)


def test_json_numbers_are_read_by_their_text() -> None:
    assert parse_quantity(2) == 2 * NANO
    assert parse_quantity(0.1) == NANO // 10
    assert parse_quantity(1e22) == MAX_NANOS
    assert parse_quantity(10**5000) == MAX_NANOS


@pytest.mark.parametrize(
    ("text", "milli", "value"),
    [("1n", 1, 1), ("1500m", 1500, 2), ("1.0001", 1001, 2), ("2", 2000, 2), ("0", 0, 0), ("-1500m", -1500, -2)],
)
def test_units_are_rounded_away_from_zero(text: str, milli: int, value: int) -> None:
    assert (to_milli(parse_quantity(text)), to_value(parse_quantity(text))) == (milli, value)


SUFFIXES: dict[str, Fraction] = {
    **{text: Fraction(10) ** power for text, power in zip(["n", "u", "m", ""], [-9, -6, -3, 0], strict=True)},
    **{text: Fraction(1000) ** power for power, text in enumerate("kMGTPE", 1)},
    **{f"{text}i": Fraction(1024) ** power for power, text in enumerate("KMGTPE", 1)},
    **{f"e{power}": Fraction(10) ** power for power in range(-12, 13)},
}


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.integers(0, 10**12),
    fraction=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_every_form_agrees_with_exact_fractions(sign: str, whole: int, fraction: str, suffix: str) -> None:
    exact = Fraction(f"{whole}.{fraction or '0'}") * SUFFIXES[suffix] * NANO
    nanos = min(-(-exact.numerator // exact.denominator), MAX_NANOS)
    assert parse_quantity(f"{sign}{whole}.{fraction}{suffix}") == (-nanos if sign == "-" else nanos)


@given(st.text(max_size=12) | st.text("0123456789.eEinumkKMGTP+- ", max_size=8))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_quantity(text), int)
