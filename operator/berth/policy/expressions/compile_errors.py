"""What the CEL library says of an expression that it does not compile, in plain words.

Its parser names tokens of a grammar (`mismatched input '<EOF>' expecting {'[', '{', ...}`), and follows the first
problem with others that it caused itself. The first one is translated, with its place and the way out, and the others
are left out. Problems of types do not cause each other, and all of them are translated.
"""

import re
from difflib import get_close_matches
from typing import Final

LONGEST: Final = 200
_FOUND: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_INSTEAD: Final = {
    "=": "to compare, write ==",
    "&": "write &&",
    "|": "write ||",
    ";": "leave it out",
    "#": "a comment begins with //",
    "\u201c": "quotes are ' and \"",
    "\u201d": "quotes are ' and \"",
    "\u2018": "quotes are ' and \"",
    "\u2019": "quotes are ' and \"",
}
_WORDS: Final = {"and": "&&", "or": "||", "is": "==", "like": ".contains(...)", "matches": ".matches('...')"}
_RESERVED: Final = {"if": "write condition ? value : otherwise"}
_NAMES: Final = {"True": "true", "False": "false", "None": "null", "nil": "null", "not": "!"}
_FUNCTIONS: Final = (
    *(
        "size",
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "int",
        "string",
        "double",
        "bool",
        "has",
        "exists",
        "all",
    ),
    *("exists_one", "filter", "map", "lowerAscii", "upperAscii", "split", "join", "replace", "substring", "trim"),
    *("indexOf", "lastIndexOf", "charAt", "orValue", "hasValue", "optMap", "math.greatest", "math.least", "cel.bind"),
)
_OTHER_LANGUAGES: Final = {
    "len": "size",
    "length": "size",
    "lower": "lowerAscii",
    "upper": "upperAscii",
    "strip": "trim",
    "includes": "contains",
    "any": "exists",
    "max": "math.greatest",
    "min": "math.least",
    "get": "[?'key'].orValue('')",
}


def translate(said: str, text: str) -> list[str]:
    """Returns the problems of an expression, each with line and column; none if the library said nothing of a place."""
    found = [(int(line), int(column), problem) for line, column, problem in _FOUND.findall(said)]
    found = [entry for entry in found if "<<nil>>" not in entry[2]]  # it follows a problem that was said before
    syntax = [entry for entry in found if entry[2].startswith(("Syntax error: ", "reserved identifier: "))]
    return [
        f"line {line}, column {column}: {_translated(problem, _rest(text, line, column))}"[:LONGEST]
        for line, column, problem in (syntax[:1] or found)
    ]


def _rest(text: str, line: int, column: int) -> str:
    """What stands at the place, to the end of its line."""
    lines = text.split("\n")
    return lines[line - 1][column - 1 :] if line <= len(lines) else ""


def _translated(problem: str, rest: str) -> str:
    problem = problem.replace(" (in container '')", "").removeprefix("Syntax error: ")
    for pattern, translate_match in _RULES:
        match = re.fullmatch(pattern, problem)
        if match is not None:
            return translate_match(match, rest)
    return problem


# --- one function a kind of problem


def _unknown_character(match: re.Match[str], rest: str) -> str:
    first = match[1][0]
    if first in "'\"":
        return f"the text that begins here with {first} does not end, or has an escape that CEL does not know"
    if first == "\\":
        return "a backslash is allowed only in texts"
    way_out = _INSTEAD.get(first)
    return f"{first} has no meaning in CEL" + (f"; {way_out}" if way_out else "")


def _missing(match: re.Match[str], rest: str) -> str:
    where = "at the end" if match[2] == "<EOF>" else f"before {match[2]}"
    return f"{match[1]} is missing {where}"


def _unexpected(match: re.Match[str], rest: str) -> str:
    found, expected = match[1], _expected(match[2])
    if found == "<EOF>":
        return f"the expression ends where {expected} is expected"
    if expected != "the end":
        return f"{found} stands where {expected} is expected"
    if found in _WORDS:
        return f"{found} is no operator of CEL; write {_WORDS[found]}"
    if found in ")]}":
        return f"{found} has no {'([{'[')]}'.index(found)]} before it"
    return f"{found} cannot follow here: an operator such as && is missing, or the expression has ended"


def _expected(tokens: str) -> str:
    """Returns what the parser would take, in words: a value, a name, the end, or the signs themselves."""
    if "NUM_INT" in tokens:
        return "a value"
    if tokens == "<EOF>":
        return "the end"
    names = [name.strip("'") for name in re.split(r", (?=')|, (?=[A-Z])", tokens.strip("{}"))]
    signs = [name for name in names if "IDENTIFIER" not in name and not name.startswith("\\")]
    shown = [*signs, *(["a name"] if len(names) > len(signs) else [])]
    return " or ".join(shown)


def _incomplete(match: re.Match[str], rest: str) -> str:
    return "a name is expected after the dot" if match[1].endswith(".") else f"{match[1]} is not understood here"


def _reserved(match: re.Match[str], rest: str) -> str:
    return f"{match[1]} is a reserved word of CEL; {_RESERVED.get(match[1], 'it cannot be a name')}"


def _undeclared(match: re.Match[str], rest: str) -> str:
    name = match[1]
    if not rest.startswith("("):
        instead = f"write {_NAMES[name]}" if name in _NAMES else "variables are node, pod and policy"
        return f"there is no variable {name}; {instead}"
    close = _OTHER_LANGUAGES.get(name) or next(iter(get_close_matches(name, _FUNCTIONS, 1, 0.7)), "")
    if name in _FUNCTIONS:
        return f"{name} is not called in this way: its arguments are others, or it needs a value and a dot before it"
    return f"there is no function {name}" + (f"; write {close}" if close.startswith("[") else _did_you_mean(close))


def _did_you_mean(name: str) -> str:
    return f"; did you mean {name}?" if name else ""


def _no_overload(match: re.Match[str], rest: str) -> str:
    function, types = match[1].strip("_"), match[2].split(", ")
    operator = re.fullmatch(r"_?(\W+|in)_?", match[1].replace("@", ""))
    name = operator[1] if operator is not None else function
    numbers_and_texts = {"int", "string"} <= set(types)
    way_out = "; convert one with int(...) or string(...)" if numbers_and_texts else ""
    return f"{name} does not take {' and '.join(types)}{way_out}"


_RULES: Final = (
    (r"token recognition error at: '(.*)'", _unknown_character),
    (r"missing '(.*)' at '(.*)'", _missing),
    (r"(?:mismatched|extraneous) input '(.*)' expecting (.*)", _unexpected),
    (r"no viable alternative at input '(.*)'", _incomplete),
    (r"reserved identifier: (.*)", _reserved),
    (r"undeclared reference to '(.*)'", _undeclared),
    (r"found no matching overload for '(.*)' applied to '\((.*)\)'", _no_overload),
)
