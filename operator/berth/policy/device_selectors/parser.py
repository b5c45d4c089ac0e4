"""Tokens to a tree: the grammar of CEL, with the macros of the libraries that Kubernetes 1.36 loads.

A recursive descent, one method a level of precedence. It refuses texts that nest too deep for it; the API server
refuses them too.
"""

from __future__ import annotations

from typing import Final

from .lexer import RESERVED, Token, syntax_error, tokens
from .syntax import (
    Bind,
    Call,
    CompileError,
    Constant,
    Has,
    Ident,
    Index,
    ListLiteral,
    Loop,
    MapLiteral,
    Node,
    Select,
)
from .values import MAX_INT

_DEEPEST: Final = 50  # a level takes about ten calls of Python
_RELATIONS: Final = {
    "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in",
}  # fmt: skip
_SUMS: Final = {"+": "_+_", "-": "_-_"}
_PRODUCTS: Final = {"*": "_*_", "/": "_/_", "%": "_%_"}
# Macros by how many variables and arguments after them they take.
_LOOPS: Final = {
    ("all", 2): (1, 1), ("exists", 2): (1, 1), ("exists_one", 2): (1, 1),
    ("map", 2): (1, 1), ("map", 3): (1, 2), ("filter", 2): (1, 1), ("sortBy", 2): (1, 1),
    ("all", 3): (2, 1), ("exists", 3): (2, 1), ("existsOne", 3): (2, 1),
    ("transformList", 3): (2, 1), ("transformList", 4): (2, 2),
    ("transformMap", 3): (2, 1), ("transformMap", 4): (2, 2),
    ("transformMapEntry", 3): (2, 1), ("transformMapEntry", 4): (2, 2),
    ("optMap", 2): (1, 1), ("optFlatMap", 2): (1, 1),
}  # fmt: skip


def parse(text: str) -> Node:
    """The tree of an expression; raises CompileError."""
    parser = _Parser(text)
    node = parser.expression()
    parser.expect("end")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at, self._depth = text, tokens(text), 0, 0

    # --- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *kinds: str) -> Token | None:
        token = self._token
        if token.kind not in kinds:
            return None
        self._at += 1
        return token

    def expect(self, kind: str) -> Token:
        token = self._take(kind)
        if token is None:
            raise self._unexpected()
        return token

    def _unexpected(self) -> CompileError:
        token = self._token
        shown = "<EOF>" if token.kind == "end" else token.kind if token.kind != "literal" else str(token.value)
        return self._error(f"Syntax error: mismatched input '{shown}'")

    def _error(self, problem: str) -> CompileError:
        return syntax_error(self._text, self._token.at, problem)

    # --- levels of precedence

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error("expression recursion limit exceeded")
        condition = self._or()
        if self._take("?"):
            chosen = self._or()
            self.expect(":")
            condition = Call("_?_:_", None, (condition, chosen, self.expression()))
        self._depth -= 1
        return condition

    def _or(self) -> Node:
        return self._chain("||", "_||_", self._and)

    def _and(self) -> Node:
        return self._chain("&&", "_&&_", self._relation)

    def _chain(self, kind: str, function: str, operand: object) -> Node:
        """Operands of && or ||, as one call however many there are: a long chain is not deep."""
        assert callable(operand)
        nodes: list[Node] = [operand()]
        while self._take(kind):
            nodes.append(operand())
        return nodes[0] if len(nodes) == 1 else Call(function, None, tuple(nodes))

    def _relation(self) -> Node:
        left = self._sum()
        while token := self._take(*_RELATIONS):
            left = Call(_RELATIONS[token.kind], None, (left, self._sum()))
        return left

    def _sum(self) -> Node:
        left = self._product()
        while token := self._take(*_SUMS):
            left = Call(_SUMS[token.kind], None, (left, self._product()))
        return left

    def _product(self) -> Node:
        left = self._unary()
        while token := self._take(*_PRODUCTS):
            left = Call(_PRODUCTS[token.kind], None, (left, self._unary()))
        return left

    def _unary(self) -> Node:
        if self._token.kind == "!":
            return self._signed("!", "!_")
        if self._token.kind == "-":
            following = self._tokens[self._at + 1]
            if following.kind == "literal" and type(following.value) in (int, float):
                self._at += 2
                return self._members(Constant(-following.value))
            return self._signed("-", "-_")
        return self._members(self._primary())

    def _signed(self, kind: str, function: str) -> Node:
        count = 0
        while self._take(kind):
            count += 1
        operand = self._members(self._primary())
        return Call(function, None, (operand,)) if count % 2 else operand

    def _members(self, node: Node) -> Node:
        while token := self._take(".", "["):
            optional = self._take("?") is not None
            if token.kind == "[":
                key = self.expression()
                self.expect("]")
                node = Index(node, key, optional)
                continue
            name = self._field()
            if not optional and self._take("("):
                node = self._method(node, name, self._arguments(")"))
            else:
                node = Select(node, name, optional)
        return node

    def _field(self) -> str:
        token = self._take("name", "in", "quoted")
        if token is None:
            raise self._unexpected()
        return str(token.value)

    def _primary(self) -> Node:
        if token := self._take("literal"):
            if type(token.value) is int and token.value > MAX_INT:
                raise syntax_error(self._text, token.at, "invalid int literal")
            return Constant(token.value)
        if self._take("("):
            inside = self.expression()
            self.expect(")")
            return inside
        if self._take("["):
            return ListLiteral(tuple(self._items()))
        if self._take("{"):
            return MapLiteral(tuple(self._entries()))
        self._take(".")  # a name from the root
        token = self._take("name")
        if token is None:
            raise self._unexpected()
        if token.value in RESERVED:
            raise syntax_error(self._text, token.at, f"reserved identifier: {token.value}")
        if self._take("("):
            return self._function(token, self._arguments(")"))
        return Ident(token.value)

    # --- lists of expressions

    def _arguments(self, end: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._take(end):
            if found:
                self.expect(",")
            found.append(self.expression())
        return tuple(found)

    def _items(self) -> list[tuple[bool, Node]]:
        found: list[tuple[bool, Node]] = []
        while not self._take("]"):
            if found:
                self.expect(",")
                if self._take("]"):
                    break
            found.append((self._take("?") is not None, self.expression()))
        return found

    def _entries(self) -> list[tuple[bool, Node, Node]]:
        found: list[tuple[bool, Node, Node]] = []
        while not self._take("}"):
            if found:
                self.expect(",")
                if self._take("}"):
                    break
            optional, key = self._take("?") is not None, self.expression()
            self.expect(":")
            found.append((optional, key, self.expression()))
        return found

    # --- calls and macros

    def _function(self, name: Token, args: tuple[Node, ...]) -> Node:
        if name.value != "has" or len(args) != 1:
            return Call(name.value, None, args)
        match args[0]:
            case Select(operand=operand, field=field, optional=False):
                return Has(operand, field)
        raise syntax_error(self._text, name.at, "invalid argument to has() macro")

    def _method(self, target: Node, name: str, args: tuple[Node, ...]) -> Node:
        if name == "bind" and target == Ident("cel") and len(args) == 3:
            return Bind(self._variable(args[0]), args[1], args[2])
        shape = _LOOPS.get((name, len(args)))
        if shape is None:
            return Call(name, target, args)
        variables = tuple(self._variable(arg) for arg in args[: shape[0]])
        return Loop(name, target, variables, args[shape[0] :])

    def _variable(self, node: Node) -> str:
        if isinstance(node, Ident):
            return node.name
        raise self._error("argument must be a simple name")
