"""What is said of expressions: the parser's problems in plain words, and keys that are read without a guard."""

import re

import pytest

from berth.policy.expressions.language import BadExpression, EvaluationFailed, Program, find_traps


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("node.name ==", "line 1, column 13: the expression ends where a value is expected"),
        ("node.labels['zone'", "line 1, column 19: ] is missing at the end"),
        ("true\n&& (\nfalse", "line 3, column 6: ) is missing at the end"),
        ("true)", "line 1, column 5: ) has no ( before it"),
        ("node.name = 'x'", "line 1, column 11: = has no meaning in CEL; to compare, write =="),
        ("true & true", "line 1, column 6: & has no meaning in CEL; write &&"),
        ("true and false", "line 1, column 6: and is no operator of CEL; write &&"),
        ("true or false", "line 1, column 6: or is no operator of CEL; write ||"),
        ("'abc", "line 1, column 1: the text that begins here with ' does not end, or has an escape that CEL"),
        ("\u201ca\u201d == 'b'", "line 1, column 1: \u201c has no meaning in CEL; quotes are ' and \""),
        ("true ? false", "line 1, column 13: the expression ends where : is expected"),
        ("[1, 2", "line 1, column 6: the expression ends where ] or , is expected"),
        ("node.labels{'a'}", "line 1, column 13: 'a' stands where } or , or a name is expected"),
        ("node..name", "line 1, column 6: a name is expected after the dot"),
        ("|| true", "line 1, column 1: || stands where a value is expected"),
        ("true true", "line 1, column 6: true cannot follow here: an operator such as && is missing"),
        ("if (true) 1", "line 1, column 1: if is a reserved word of CEL; write condition ? value : otherwise"),
        ("return true", "line 1, column 1: return is a reserved word of CEL; it cannot be a name"),
        ("True", "line 1, column 1: there is no variable True; write true"),
        ("len(node.name) > 1", "there is no function len; did you mean size?"),
        ("node.labels.get('x') == ''", "there is no function get; write [?'key'].orValue('')"),
        ("node.name.startWith('x')", "there is no function startWith; did you mean startsWith?"),
        ("size()", "size is not called in this way"),
        ("node.name + 1 == 2", "+ does not take string and int; convert one with int(...) or string(...)"),
    ],
)
def test_a_problem_is_said_in_plain_words_with_its_place(expression: str, said: str) -> None:
    with pytest.raises(BadExpression) as refused:
        Program(expression, bool, {})
    assert said in str(refused.value)


@pytest.mark.parametrize("expression", ["x ? 1", "node.name = 'x'", "@", "node.labels[", "true && in", "'\\q'"])
def test_no_word_of_the_grammar_and_no_problem_that_another_one_caused_is_said(expression: str) -> None:
    with pytest.raises(BadExpression) as refused:
        Program(expression, bool, {})
    [problem] = refused.value.problems
    assert not re.search(r"EOF|IDENTIFIER|NUM_|Syntax error|expecting|nil|4294967295", problem)


GUARDED = [
    "'zone' in node.labels && node.labels['zone'] == 'a'",
    "node.labels['zone'] == 'a' && 'zone' in node.labels",
    "has(node.labels.zone) && node.labels.zone == 'a'",
    "!('zone' in node.labels) || node.labels['zone'] == 'a'",
    "node.labels['zone'] == 'a' || !has(node.labels.zone)",
    "'zone' in node.labels ? node.labels['zone'] == 'a' : false",
    "!('zone' in node.labels) ? false : node.labels['zone'] == 'a'",
    "(node.unschedulable || !('zone' in node.labels)) ? false : node.labels['zone'] == 'a'",
    "node.labels[?'zone'].orValue('') == 'a'",
    "node.labels[?'zone'].hasValue() && node.labels['zone'] == 'a'",
    "'zone' in node.labels && ['a', 'b'].exists(z, node.labels['zone'] == z)",
]
UNGUARDED = [
    "node.labels['zone'] == 'a'",
    "node.labels.zone == 'a'",
    "node.labels['zone'] == 'a' || node.labels['zone'] == 'b'",
    "'zone' in node.labels || node.labels['zone'] == 'a'",
    "!('zone' in node.labels) && node.labels['zone'] == 'a'",
    "'zone' in node.labels ? true : node.labels['zone'] == 'a'",
    "'zone' in node.labels == (node.labels['zone'] == 'a')",
    "('zone' in node.labels || true) && node.labels['zone'] == 'a'",
    "['a', 'b'].exists(z, node.labels['zone'] == z)",
]


@pytest.mark.parametrize(("expression", "is_trap"), [*((t, False) for t in GUARDED), *((t, True) for t in UNGUARDED)])
def test_an_expression_is_a_trap_if_it_fails_where_the_key_is_missing(expression: str, is_trap: bool) -> None:
    assert bool(find_traps(expression)) is is_trap
    program = Program(expression, bool, {})
    try:
        program.evaluate({"node.labels": {}, "node.unschedulable": False})
    except EvaluationFailed:
        assert is_trap
    else:
        assert not is_trap


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (
            "node.labels['zone'] == 'a'",
            "line 1, column 12: fails on nodes without the label zone; "
            "write node.labels[?'zone'].orValue(''), or test 'zone' in node.labels before",
        ),
        ("node.annotations.x == 'a'", "fails on nodes without the annotation x"),
        ("node.conditions['GpuHealthy'] == 'True'", "fails on nodes without the condition GpuHealthy"),
        ("pod.labels.app == 'a'", "fails for pods without the label app"),
        ("pod.nodeSelector.disk == 'ssd'", "fails for pods without disk in their nodeSelector"),
        ("pod.controller.kind == 'Job'", "fails for pods without a controller"),
    ],
)
def test_a_trap_is_said_with_its_place_and_the_guarded_form(expression: str, said: str) -> None:
    [trap] = find_traps(expression)
    assert said in trap
    guarded = re.search(r"write (\S+), or", trap)
    assert guarded is not None
    assert find_traps(f"{guarded[1]} == ''") == []


@pytest.mark.parametrize(
    "expression",
    [
        "node.free['nvidia.com/gpu'] > 0",
        "node.labels['kubernetes.io/os'] == 'linux'",
        "node.conditions.Ready == 'True'",
    ],
)
def test_what_every_node_has_and_amounts_which_are_0_are_no_traps(expression: str) -> None:
    assert find_traps(expression) == []
