"""Selectors of devices say what kube-scheduler says, and cost no more than they may."""

from typing import Any

import pytest

from berth.model.devices import Device, parse_resource_slice
from berth.policy.device_selectors import CompileError, EvaluationError, compile_selector
from device_selectors.answers import recorded
from device_selectors.expressions import DEVICE, DRIVER, EXPRESSIONS
from support.builders import make_object

TEN = str(list(range(10)))


def make_device(body: dict[str, Any]) -> Device:
    spec = {"driver": DRIVER, "pool": {"name": "p"}, "devices": [{"name": "d", **body}]}
    return parse_resource_slice(make_object("ResourceSlice", "s", spec=spec)).devices[0]


DEVICE_RECORD = make_device(DEVICE)


def answer_to(expression: str) -> dict[str, Any]:
    try:
        return {"match": compile_selector(expression).matches(DRIVER, DEVICE_RECORD)}
    except CompileError:
        return {"compileError": True}
    except EvaluationError as error:
        return {"matchError": str(error)}


def test_every_expression_gets_the_answer_that_kube_scheduler_gives() -> None:
    different = {
        expression: answer_to(expression)
        for expression, answer in zip(EXPRESSIONS, recorded(), strict=True)
        if answer_to(expression) != answer
    }
    assert different == {}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("?!", "compilation failed: ERROR: <input>:1:1: Syntax error"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("dyn(true)", "must evaluate to bool or the unknown type, not dyn"),
        ("device.nothing", "undefined field 'nothing'"),
        ("nothing", "undeclared reference to 'nothing'"),
        ("'a'.nothing()", "undeclared reference to 'nothing'"),
        ("'a'.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("'a'.matches('(')", "error parsing regexp: missing closing ): `(`"),
    ],
)
def test_an_invalid_expression_is_refused_with_what_is_wrong(expression: str, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_selector(expression)
    assert words in str(refused.value)


def test_an_attribute_of_an_unknown_kind_is_an_error_even_if_it_is_not_read() -> None:
    device = make_device({"attributes": {"names": {"strings": ["a"]}}})
    with pytest.raises(EvaluationError, match="attribute names: unsupported attribute value"):
        compile_selector("true").matches(DRIVER, device)


def test_a_version_that_is_none_is_an_error() -> None:
    device = make_device({"attributes": {"v": {"version": "1.x.0"}}})
    with pytest.raises(EvaluationError, match="attribute v: parse semantic version: Invalid character"):
        compile_selector("true").matches(DRIVER, device)


def test_an_attribute_without_a_domain_is_in_that_of_the_driver() -> None:
    selector = compile_selector('device.attributes["a.example"].mig')
    device = make_device({"attributes": {"mig": {"bool": True}}})
    assert selector.matches("a.example", device)
    with pytest.raises(EvaluationError, match="no such key: mig"):
        selector.matches("b.example", device)


def test_an_evaluation_that_costs_too_much_ends() -> None:
    nested = "true"
    for depth in range(7):
        nested = f"{TEN}.all(x{depth}, {nested})"
    with pytest.raises(EvaluationError, match="operation cancelled: actual cost limit exceeded"):
        compile_selector(nested).matches(DRIVER, DEVICE_RECORD)


@pytest.mark.parametrize("grown", ["lists.range(1000000000).size() > 0", "'%s'.format([lists.range(1000000)]) != ''"])
def test_what_would_grow_beyond_bounds_is_refused(grown: str) -> None:
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        compile_selector(grown).matches(DRIVER, DEVICE_RECORD)


def test_texts_cannot_be_doubled_without_end() -> None:
    doubled = "'aaaaaaaaaaaaaaaa'"
    for depth in range(40):
        doubled = f"cel.bind(x{depth}, {doubled}, x{depth} + x{depth})"
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        compile_selector(f"{doubled} != ''").matches(DRIVER, DEVICE_RECORD)


def test_a_text_cannot_be_multiplied_by_replacing() -> None:
    grown = "'a'" + ".replace('a', 'aaaaaaaaaaaaaaaa')" * 12
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        compile_selector(f"{grown} != ''").matches(DRIVER, DEVICE_RECORD)


@pytest.mark.parametrize(
    "grown", ["a.replace('a', a).size() > 0", "a.split('').join(a) != ''", "'%.99999999f'.format([1.0]) != ''"]
)
def test_one_step_cannot_make_a_text_of_any_length(grown: str) -> None:
    long = "'" + "a" * 5_000 + "'"
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        compile_selector(f"cel.bind(a, {long}, {grown})").matches(DRIVER, DEVICE_RECORD)


def test_what_cannot_be_a_key_is_in_no_map() -> None:
    assert not compile_selector("dyn([1]) in {1: 2}").matches(DRIVER, DEVICE_RECORD)


def test_a_pattern_that_makes_others_backtrack_takes_linear_time() -> None:
    text = "a" * 2_000
    selector = compile_selector(f"'{text}b'.matches('^(a+)+$')")
    assert not selector.matches(DRIVER, DEVICE_RECORD)  # 2^2000 steps for an engine that backtracks


def test_a_long_chain_of_conditions_is_not_deep() -> None:
    chain = " || ".join(f'device.driver == "d{number}"' for number in range(250))
    assert not compile_selector(chain).matches(DRIVER, DEVICE_RECORD)


def test_a_text_that_nests_too_deep_is_refused() -> None:
    with pytest.raises(CompileError, match="recursion limit"):
        compile_selector("(" * 500 + "true" + ")" * 500)
    with pytest.raises(CompileError, match="recursion limit"):
        compile_selector("1 + " * 5_000 + "1 == 0")
