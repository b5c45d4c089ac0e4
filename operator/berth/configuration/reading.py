"""From flags, variables and the file to options: a flag wins over its variable, that over the file, that over the
default; of the feature gates each one by itself.

Everything that is wrong is found at once and said with where it was written, so that one round of repairs is enough.
"""

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from berth.configuration.file import read_file
from berth.configuration.options import Options
from berth.configuration.settings import PREFIX, SETTINGS, Setting
from berth.configuration.values import BadValue, Gates

CONFIG_FLAG, CONFIG_VARIABLE = "--config", f"{PREFIX}CONFIG"
ALL_VARIABLES = "`berth run --write-config-to -` shows every variable"
# What the kubelet tells every container of the services `berth` and `berth-...` of its namespace.
_OF_SERVICES = re.compile(rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)")

Problems = list[str]


class BadConfiguration(ValueError):
    """str() has a line for each thing that is wrong."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(slots=True)
class _Chosen:
    """What the sources say, the strongest last: the values by setting, and where each of them was written."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: Problems = field(default_factory=list)

    def take(self, setting: Setting, source: str, read: Callable[[], object]) -> None:
        try:
            value = read()
        except BadValue as error:
            self.problems.append(f"{source}: {error}")
            return
        if isinstance(setting.kind, Gates) and isinstance(value, Mapping):
            value = {**self.values.get(setting.name, {}), **value}
        self.values[setting.name] = value
        self.sources[setting.name] = source


def read(
    environment: Mapping[str, str], flags: Mapping[str, str | bool | None] | None = None, config: str | None = None
) -> Options:
    """The options; raises BadConfiguration. `flags` are by setting, None where not given: a text, or a switch's
    position. `config`: the file that was named by a flag.
    """
    chosen = _Chosen(problems=_unknown(environment))
    _take_file(chosen, config or environment.get(CONFIG_VARIABLE) or None)
    for setting in SETTINGS:
        text = environment.get(setting.variable)
        if text or (text is not None and setting.kind.empty):
            chosen.take(setting, setting.variable, partial(setting.kind.from_text, text))
    for setting in SETTINGS:
        given = (flags or {}).get(setting.name)
        if given is not None:
            chosen.take(setting, setting.flag, partial(_from_flag, setting, given))
    return _options(chosen)


def read_or_exit(environment: Mapping[str, str] = os.environ) -> Options:
    """For callers without our command line: what is wrong goes to standard error, and the exit code is 2."""
    try:
        return read(environment)
    except BadConfiguration as error:
        print("\n".join(f"berth: {problem}" for problem in error.problems), file=sys.stderr)
        sys.exit(2)


def _unknown(environment: Mapping[str, str]) -> Problems:
    """Variables that look like ours and are not: a slip there would go unnoticed."""
    known = [variable.removeprefix(PREFIX) for variable in (CONFIG_VARIABLE, *(each.variable for each in SETTINGS))]
    ours = [name for name in sorted(environment) if name.startswith(PREFIX) and not _OF_SERVICES.fullmatch(name)]
    strange = [name for name in ours if name.removeprefix(PREFIX) not in known]
    return [f"{name}: is not a setting{_nearest(name, known)} {ALL_VARIABLES}" for name in strange]


def _nearest(variable: str, known: Iterable[str]) -> str:
    """By what follows the prefix, which alone would make all of them alike."""
    close = difflib.get_close_matches(variable.removeprefix(PREFIX)[:100], known, n=1)
    return f"; did you mean {PREFIX}{close[0]}?" if close else ";"


def _take_file(chosen: _Chosen, path: str | None) -> None:
    if path is None:
        return
    values, problems = read_file(path)
    chosen.problems += problems
    for setting in SETTINGS:
        if setting.key in values:
            chosen.take(setting, f"{path}: {setting.key}", partial(_from_file, setting, values[setting.key]))


def _from_flag(setting: Setting, given: str | bool) -> object:
    if isinstance(given, bool):
        return given
    if not given and not setting.kind.empty:
        raise BadValue(f"is empty; leave it out, or write {setting.kind.words}")
    return setting.kind.from_text(given)


def _from_file(setting: Setting, value: object) -> object:
    if value is None:
        if setting.default is None:
            return None
        raise BadValue(f"is empty; leave the key out, or write {setting.kind.words}")
    return setting.kind.from_yaml(value)


def _options(chosen: _Chosen) -> Options:
    problems = chosen.problems + _contradictions(chosen)
    if problems:
        raise BadConfiguration(problems)
    values = chosen.values
    default = Options()
    if "feature_gates" in values:
        values["feature_gates"] = {**default.feature_gates, **values["feature_gates"]}
    return replace(default, **values)


def _contradictions(chosen: _Chosen) -> Problems:
    """Settings that are invalid together."""
    https = ("tls_cert_file", "tls_private_key_file")
    explain = ("explain_tls_cert_file", "explain_tls_private_key_file")
    webhook = ("webhook_tls_cert_file", "webhook_tls_private_key_file")
    pairs = ((https, "https_address"), (explain, "explain_address"), (webhook, "webhook_address"))
    return [problem for pair, address in pairs for problem in _of_pair(chosen, pair, address)]


def _of_pair(chosen: _Chosen, pair: tuple[str, str], address: str) -> Problems:
    """Of a certificate and its key, which serve at this address."""
    given = [name for name in pair if chosen.values.get(name) is not None]
    if given and chosen.values.get(address, getattr(Options(), address)) == "":
        flag = f"--{address.replace('_', '-')}"
        return [f"{chosen.sources[given[0]]}: there is nothing to serve with it, as {flag} is empty"]
    if len(given) != 1:
        return []
    missing = next(setting for setting in SETTINGS if setting.name in pair and setting.name not in given)
    return [f"{chosen.sources[given[0]]}: goes with {missing.flag} ({missing.key}) only: give both, or none of the two"]
