"""Kinds of values. Each is read from a text (a flag, a variable) or from YAML, and written to YAML.

What cannot be read is a `BadValue`, whose text ends a sentence that begins with the name of the setting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from berth.configuration.gates import DEFAULTS
from berth.policy.reading import did_you_mean, is_object_name
from berth.policy.wording import cut, show
from berth.serving.addresses import BadAddress, parse_http_address, parse_https_address


class BadValue(ValueError):
    """The value makes no sense; str() says why."""


class Kind(Protocol):
    """How the values of a setting are read and written."""

    @property
    def empty(self) -> bool:
        """Whether an empty text is a value; else it means that nothing is given."""
        ...

    @property
    def words(self) -> str:
        """What is taken, for whoever has to write it."""
        ...

    def from_text(self, text: str) -> object:
        """The value of a flag or variable; raises BadValue."""
        ...

    def from_yaml(self, value: object) -> object:
        """The value of a key, which is not null; raises BadValue."""
        ...

    def to_yaml(self, value: object) -> object:
        """What `from_yaml` reads back."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """Any text but the empty one."""

    words: str = "text"
    empty: bool = False

    def from_text(self, text: str) -> object:
        if not text.isprintable():
            raise BadValue(f"{show(text)} has characters that cannot be printed")
        return text

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, str) or not value:
            raise BadValue(f'{show(value)} is not a text; a number or a date needs quotes: "..."')
        return self.from_text(value)

    def to_yaml(self, value: object) -> object:
        return value


@dataclass(frozen=True, slots=True)
class ObjectName(Text):
    words: str = "name of an object"

    def from_text(self, text: str) -> object:
        if not is_object_name(text):
            raise BadValue(f'{show(text)} is not the name of an object: lower-case letters, digits, "-", "."')
        return text


@dataclass(frozen=True, slots=True)
class Address(Text):
    """host:port. Not a `Text` where it is empty: that switches off what would be served there."""

    words: str = 'host:port, or "" for none'
    empty: bool = True
    loopback: bool = False

    def from_text(self, text: str) -> object:
        try:
            if text:
                (parse_http_address if self.loopback else parse_https_address)(text)
        except BadAddress as error:
            raise BadValue(str(error)) from error
        return text

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, str):
            raise BadValue(f'{show(value)} is not a text: "host:port"')
        return self.from_text(value)


@dataclass(frozen=True, slots=True)
class Choice:
    choices: Sequence[str]
    empty: bool = False

    @property
    def words(self) -> str:
        return ", ".join(self.choices)

    def from_text(self, text: str) -> object:
        return self.from_yaml(text)

    def from_yaml(self, value: object) -> object:
        if value not in self.choices:
            raise BadValue(f"{show(value)} is not one of {self.words}")
        return value

    def to_yaml(self, value: object) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Switch:
    """A flag of its own with a `--no-` form; on or off in a variable, true or false in YAML."""

    words: str = "on or off"
    empty: bool = False

    def from_text(self, text: str) -> object:
        if text not in ("on", "off"):
            raise BadValue(f"{show(text)} is not on or off")
        return text == "on"

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, bool):
            raise BadValue(f"{show(value)} is not true or false")
        return value

    def to_yaml(self, value: object) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds; `number` makes the field's type of it."""

    low: int
    high: int
    number: type[int] | type[float] = int
    empty: bool = False

    @property
    def words(self) -> str:
        return f"{self.low} to {self.high}"

    def from_text(self, text: str) -> object:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise BadValue(f"{show(text)} is not a whole number")
        return self.from_yaml(int(text))

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadValue(f"{show(value)} is not a whole number")
        if not self.low <= value <= self.high:
            raise BadValue(f"{show(value)} is not from {self.low} to {self.high}")
        return self.number(value)

    def to_yaml(self, value: object) -> object:
        return int(value) if isinstance(value, int | float) else value


@dataclass(frozen=True, slots=True)
class Gates:
    """Feature gates by name; those that are not named stay as they are."""

    words: str = "A=true,B=false"
    empty: bool = False

    def from_text(self, text: str) -> object:
        found: dict[str, object] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or value not in ("true", "false"):
                raise BadValue(f"{show(part)} is not NAME=true or NAME=false; the gates are {', '.join(DEFAULTS)}")
            if name in found:
                raise BadValue(f"{show(name)} is there twice")
            found[name] = value == "true"
        return self.from_yaml(found)

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, Mapping):
            raise BadValue(f"{show(value)} is not a mapping of gates to true or false")
        for name, position in value.items():
            if name not in DEFAULTS:
                hint = did_you_mean(str(name), DEFAULTS)
                raise BadValue(f"{show(name)} is not a gate{hint or ';'} known are {', '.join(DEFAULTS)}")
            if not isinstance(position, bool):
                raise BadValue(f"{cut(str(name))}: {show(position)} is not true or false")
        return dict(value)

    def to_yaml(self, value: object) -> object:
        return dict(value) if isinstance(value, Mapping) else value
