"""Text to tokens, as the CEL specification has them."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from .syntax import CompileError
from .values import MAX_INT, MAX_UINT, Uint


class Token(NamedTuple):
    """`kind` is name, literal, end or the operator itself."""

    kind: str
    value: Any
    at: int


RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
        *("namespace", "return", "var", "void", "while"),
    }
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_SPACE: Final = re.compile(r"(?:[ \t\r\n\f]+|//[^\n]*)*")
_STRING: Final = re.compile(r"([bB]?[rR]?|[rR][bB])('''|\"\"\"|'|\")")
_NUMBER: Final = re.compile(
    r"0[xX][0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)|[0-9]+[uU]?"
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED_NAME: Final = re.compile(r"`([A-Za-z0-9_.\-/ ]+)`")
_OPERATOR: Final = re.compile(r"&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}=]")
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))", re.DOTALL
)


def tokens(text: str) -> list[Token]:
    """All tokens of the text and one that says that it ends; raises CompileError."""
    found: list[Token] = []
    at = _after_space(text, 0)
    while at < len(text):
        token, at = _next(text, at)
        found.append(token)
        at = _after_space(text, at)
    return [*found, Token("end", None, len(text))]


def syntax_error(text: str, at: int, problem: str) -> CompileError:
    """With the line and column, and the line itself, as users know it."""
    before = text[:at]
    line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1)
    shown = text.split("\n")[line - 1]
    return CompileError(f"ERROR: <input>:{line}:{column + 1}: {problem}\n | {shown}\n | {'.' * column}^")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _next(text: str, at: int) -> tuple[Token, int]:
    if found := _STRING.match(text, at):
        return _string(text, at, found[1].lower(), found[2], found.end())
    if found := _NUMBER.match(text, at):
        return Token("literal", _number(text, at, found[0]), at), found.end()
    if found := _NAME.match(text, at):
        name = found[0]
        if name in _WORDS:
            return Token("literal", _WORDS[name], at), found.end()
        return Token("in" if name == "in" else "name", name, at), found.end()
    if found := _QUOTED_NAME.match(text, at):
        return Token("quoted", found[1], at), found.end()
    if found := _OPERATOR.match(text, at):
        return Token(found[0], found[0], at), found.end()
    raise syntax_error(text, at, f"Syntax error: token recognition error at: '{text[at]}'")


def _number(text: str, at: int, digits: str) -> Any:
    if not re.fullmatch(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)[uU]?", digits):
        return float(digits)
    unsigned = digits[-1] in "uU"
    number = int(digits.rstrip("uU"), 16 if digits[:2] in ("0x", "0X") else 10)
    if unsigned:
        if number > MAX_UINT:
            raise syntax_error(text, at, "invalid uint literal")
        return Uint(number)
    if number > MAX_INT + 1:  # one more: a minus sign may stand before it
        raise syntax_error(text, at, "invalid int literal")
    return number


def _string(text: str, at: int, prefix: str, quote: str, start: int) -> tuple[Token, int]:
    end = start
    while True:
        if end >= len(text) or (text[end] in "\r\n" and len(quote) == 1):
            raise syntax_error(text, at, f"Syntax error: token recognition error at: '{text[at:end]}'")
        if text.startswith(quote, end):
            break
        end += 2 if text[end] == "\\" and "r" not in prefix else 1
    body = text[start:end]
    value: Any = body if "r" in prefix else _unescaped(text, at, body, as_bytes="b" in prefix)
    if "b" in prefix and isinstance(value, str):
        value = value.encode()
    return Token("literal", value, at), end + len(quote)


def _unescaped(text: str, at: int, body: str, *, as_bytes: bool) -> str | bytes:
    def replace(found: re.Match[str]) -> str:
        simple, two, four, eight, octal, wrong = found.groups()
        if wrong is not None:
            raise syntax_error(text, at, f"Syntax error: token recognition error at: '\\{wrong}'")
        if simple is not None:
            return _ESCAPES[simple]
        number = int(octal, 8) if octal is not None else int(two or four or eight, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise syntax_error(text, at, "invalid unicode code point")
        return f"\udc00{chr(number)}" if as_bytes and (two or octal) else chr(number)

    replaced = _ESCAPE.sub(replace, body)
    if not as_bytes:
        return replaced
    parts = replaced.split("\udc00")  # what follows this mark begins with a single byte
    return parts[0].encode() + b"".join(part[0].encode("latin-1") + part[1:].encode() for part in parts[1:])
