"""From the text of an expression to a program: parsed, bounded and type-checked, with readable errors.

The variables are the fields of fields.py, each with its type. The libraries of CEL that are loaded are strings, math,
optional values and cel.bind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, NoReturn

from berth.engine.plugin import BadArgument
from berth.policy.expressions.compile_errors import translate
from berth.policy.expressions.cost import ValueShape, cost_of, shape_of_field, shape_of_value
from berth.policy.expressions.fields import FIELDS, FieldKind
from berth.policy.expressions.guards import find_unguarded
from berth.policy.expressions.reads import PARAMETERS, Complaint, ExpressionReads, find_reads
from berth.policy.expressions.syntax import Call, Constant, Expr, Tree, children, read_tree

MAX_LENGTH: Final = 2048
MAX_COST: Final = 20_000  # about 2 milliseconds

_MAX_OPTIONAL_MACROS: Final = 4  # each doubles the tree of what stands before it
_LONGEST_ERROR: Final = 200
_TOO_DEEP: Final = (
    "it goes more than 32 levels deep, and each operand of + and the like is one; "
    "split it into several entries, or put long lists into policy.parameters"
)


class BadExpression(BadArgument):
    """An invalid expression, with all problems of the first step of checking that finds any."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("expression", "; ".join(self.problems))


class EvaluationFailed(Exception):
    """An evaluation without a result; the text says why."""


class Program:
    """A checked expression. `reads` is what it has to be given; `result` is bool or int."""

    def __init__(self, text: str, result: type[bool] | type[int], parameters: Mapping[str, Any]) -> None:
        """Raises BadExpression, with everything that the first step finds which finds anything."""
        _check_text(text)
        self.text, self.parameters = text, _plain(parameters)
        self._result = result
        self._tree = _parse(text)
        self._problems: list[str] = []
        self.reads: ExpressionReads = find_reads(self._tree.root, self.parameters, self._complain)
        self._check_patterns(self._tree.root)
        if self._problems:
            raise BadExpression(self._problems)
        self._compiled = _check(text)
        self._wanted = _types().BOOL if result is bool else _types().INT
        self._check_result()
        cost = self.cost({})
        if cost > MAX_COST:
            _refuse(
                f"it may cost {_milliseconds(cost)} for each node, and {_milliseconds(MAX_COST)} is the most; "
                "put fewer loops into each other, and let texts and lists grow less"
            )

    def cost(self, sizes: Mapping[str, int]) -> int:
        """The most that one evaluation costs with so many entries in the fields that are read whole."""
        shapes: dict[str, ValueShape] = {}
        for name in self.reads.fields:
            if name == PARAMETERS:
                shapes[name] = shape_of_value(self.parameters)
                continue
            keys = self.reads.named(name)
            entries = sizes.get(name, FIELDS[name].entries) if keys is None else len(keys)
            shapes[name] = shape_of_field(name, entries)
        return cost_of(self._tree.root, shapes)

    def evaluate(self, data: Mapping[str, Any]) -> int:
        """The answer for what it reads, by the fields' names. Raises EvaluationFailed."""
        try:
            answer = self._compiled.eval(data=data)
            value = answer.value()
        except Exception as error:  # the library raises what it cannot give as a value, in several types
            raise EvaluationFailed(_evaluation_error(str(error))) from None
        if type(value) is self._result and answer.type() == self._wanted:
            return value
        if answer.type() == _types().ERROR:
            raise EvaluationFailed(_evaluation_error(str(value)))
        raise EvaluationFailed(f"it gave {_a(_type_name(answer.type()))}, not {_a(_type_name(self._wanted))}")

    def _check_result(self) -> None:
        given = self._compiled.return_type()
        if given not in (self._wanted, _types().DYN):
            wanted = "a predicate has to give a bool" if self._result is bool else "a priority has to give an int"
            _refuse(f"it gives {_a(_type_name(given))}; {wanted}")

    def _check_patterns(self, expr: Expr) -> None:
        """Patterns that are written out have to be regular expressions."""
        match expr:
            case Call(function="matches", args=(*_, Constant(value=str() as pattern))):
                answer = _pattern_check().eval(data={"node.name": "", "pod.name": pattern})
                if answer.type() == _types().ERROR:
                    with suppress(Complaint):
                        self._complain(expr.args[-1], _evaluation_error(str(answer.value())))
        for child in children(expr):
            self._check_patterns(child)

    def _complain(self, expr: Expr, problem: str) -> NoReturn:
        self._problems.append(f"{_place(self.text, self._tree, expr)}: {problem}")
        raise Complaint


def find_traps(text: str) -> list[str]:
    """Returns what fails on some nodes or for some pods, with its place and the way out. Raises BadExpression."""
    tree = _parse(text)
    return [f"{_place(text, tree, trap.expr)}: {trap}" for trap in find_unguarded(tree.root)]


def _refuse(problem: str) -> NoReturn:
    raise BadExpression([problem])


def _check_text(text: str) -> None:
    if not text.strip():
        _refuse("it is empty")
    if len(text) > MAX_LENGTH:
        _refuse(f"it has {len(text)} characters, and {MAX_LENGTH} is the most")
    if not text.isprintable() and any("\ud800" <= character <= "\udfff" for character in text):
        _refuse("it has half of a surrogate pair in it, which is no character")
    if len(re.findall(r"\bopt(?:Flat)?Map\b", text)) > _MAX_OPTIONAL_MACROS:
        _refuse(f"optMap and optFlatMap may stand in it {_MAX_OPTIONAL_MACROS} times at most")


def _parse(text: str) -> Tree:
    try:
        return read_tree(_environment().compile(text, disable_check=True).serialize())
    except RuntimeError as error:
        raise BadExpression(_compile_errors(str(error), text)) from None


def _check(text: str) -> Any:
    try:
        return _environment().compile(text)
    except RuntimeError as error:
        raise BadExpression(_compile_errors(str(error), text)) from None


@cache
def _types() -> Any:
    from cel_expr_python import cel  # type: ignore[import-untyped]  # loaded for the first expression: few policies have one

    return cel.Type


@cache
def _environment() -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings  # type: ignore[import-untyped]

    types = cel.Type
    texts, amounts = types.Map(types.STRING, types.STRING), types.Map(types.STRING, types.INT)
    of_kind = {
        FieldKind.TEXT: types.STRING,
        FieldKind.INTEGER: types.INT,
        FieldKind.FLAG: types.BOOL,
        FieldKind.LIST: types.List(types.STRING),
        FieldKind.TEXTS: texts,
        FieldKind.AMOUNTS: amounts,
        FieldKind.RECORDS: types.List(texts),
        FieldKind.ANYTHING: types.Map(types.STRING, types.DYN),
    }
    return cel.NewEnv(
        variables={name: of_kind[field.kind] for name, field in FIELDS.items()},
        extensions=[
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
            ext_bindings.ExtBindings(),
        ],
    )


@cache
def _pattern_check() -> Any:
    return _environment().compile("node.name.matches(pod.name)")


def _plain(value: Any) -> Any:
    """The same in dicts and lists, which is what the library takes."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


# --- words


def _place(text: str, tree: Tree, expr: Expr) -> str:
    before = text[: tree.offsets.get(expr.id, 0)]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def _compile_errors(said: str, text: str) -> list[str]:
    if re.search("recursion (?:depth|limit)", said):
        return [_TOO_DEEP]
    return translate(said, text) or [_evaluation_error(said)]


def _evaluation_error(said: str) -> str:
    text = re.sub(r"^(?:[A-Z_]+: )+|(?: \[[A-Z_]+\])+$", "", said.split("\n")[0])
    text = text.replace("Key not found in map :", "no such key:")
    return text[:_LONGEST_ERROR]


def _type_name(kind: Any) -> str:
    return str(kind.name()).lower()


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _milliseconds(cost: int) -> str:
    return f"{cost / 10_000:.3g} ms"
