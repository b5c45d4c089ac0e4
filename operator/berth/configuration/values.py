"""Kinds of values. Each is read from a text (a flag, a variable) or from YAML, and written to YAML.

What cannot be read is a `BadValue`, whose text ends a sentence that begins with the name of the setting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Protocol

from berth.configuration.gates import DEFAULTS
from berth.policy.addresses import is_host_pattern
from berth.policy.reading import did_you_mean, is_object_name
from berth.policy.wording import cut, show
from berth.serving.addresses import BadAddress, parse_http_address, parse_https_address

LISTED_MAX = 256
NO_NAMES = "-"


class BadValue(ValueError):
    """The value is invalid; str() says why."""


class SettingKind(Protocol):
    """How the values of a setting are read and written."""

    @property
    def empty(self) -> bool:
        """Whether an empty text is a value; else it means that nothing is given."""
        ...

    @property
    def words(self) -> str:
        """What is accepted, for the user who has to write it."""
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
class Listed:
    """Names, each once: with commas between in a text, a list in YAML.

    None of them is written as `-`: a variable that is empty by mistake must not give up a limit.
    """

    what: str = "names"
    empty: bool = False

    @property
    def words(self) -> str:
        return f"{self.what}, with commas between, or {NO_NAMES} for none (file: a list)"

    def from_text(self, text: str) -> object:
        if text.strip() == NO_NAMES:
            return ()
        return self._read([part.strip() for part in text.split(",") if part.strip()])

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, list):
            raise BadValue(f"{show(value)} is not a list")
        return self._read(value)

    def to_yaml(self, value: object) -> object:
        return list(value) if isinstance(value, tuple) else value

    def to_text(self, value: object) -> str:
        return ",".join(value) or NO_NAMES if isinstance(value, tuple) else NO_NAMES

    def _read(self, items: Sequence[object]) -> tuple[str, ...]:
        if len(items) > LISTED_MAX:
            raise BadValue(f"has {len(items)} entries, may have {LISTED_MAX}")
        for item in items:
            problem = self.problem(item) if isinstance(item, str) else "is not a text"
            if problem:
                raise BadValue(f"{show(item)} {problem}")
        return tuple(dict.fromkeys(str(item) for item in items))

    def problem(self, item: str) -> str:
        return "" if is_object_name(item) else 'is not the name of an object: lower-case letters, digits, "-", "."'


@dataclass(frozen=True, slots=True)
class HostPatterns(Listed):
    what: str = "hosts"

    def problem(self, item: str) -> str:
        return "" if is_host_pattern(item) else 'is not a host in small letters, an address, "*.END" or "*"'


@dataclass(frozen=True, slots=True)
class Networks(Listed):
    what: str = "networks"

    def problem(self, item: str) -> str:
        try:
            ip_network(item)
        except ValueError as error:
            return f"is not a network such as 127.0.0.0/8: {error}"
        return ""


@dataclass(frozen=True, slots=True)
class Installation(Text):
    """A name, or none. A replica's identity begins with it, so it has the signs that names of objects have."""

    words: str = "names of objects with / between, such as namespace/name"

    def from_text(self, text: str) -> object:
        if text and (len(text) > 200 or not all(is_object_name(part) for part in text.split("/"))):
            raise BadValue(f'{show(text)} is not a name: lower-case letters, digits, "-", ".", "/" between names')
        return text

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, str):
            raise BadValue(f"{show(value)} is not a text")
        return self.from_text(value)


@dataclass(frozen=True, slots=True)
class ServiceName(Text):
    """A Service as namespace/name, or none."""

    words: str = "namespace/name of a Service"
    empty: bool = True

    def from_text(self, text: str) -> object:
        parts = text.split("/")
        if text and (len(parts) != 2 or not all(is_object_name(part) and "." not in part for part in parts)):
            raise BadValue(f"{show(text)} is not a Service: write namespace/name")
        return text

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, str):
            raise BadValue(f"{show(value)} is not a text: namespace/name")
        return self.from_text(value)


@dataclass(frozen=True, slots=True)
class IpAddress(Text):
    """An IP address, or none."""

    words: str = "IP address"
    empty: bool = True

    def from_text(self, text: str) -> object:
        try:
            if text:
                ip_address(text)
        except ValueError:
            raise BadValue(f"{show(text)} is not an IP address") from None
        return text

    def from_yaml(self, value: object) -> object:
        if not isinstance(value, str):
            raise BadValue(f"{show(value)} is not a text: an IP address")
        return self.from_text(value)


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
