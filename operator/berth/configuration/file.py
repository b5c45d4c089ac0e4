"""The configuration file: one YAML document of kind BerthConfiguration, with the settings by their keys.

It is read whole or not at all, with every problem named: a key that nobody knows, one that is there twice, a document
that is not ours. It is written with a comment for each setting, so that what is written explains itself.
"""

from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap

import yaml

from berth import __version__
from berth.configuration.options import Options
from berth.configuration.settings import BY_KEY, SETTINGS, Setting, as_mapping
from berth.policy.documents import BadDocument, read_documents
from berth.policy.reading import did_you_mean
from berth.policy.wording import show

API_VERSION, KIND = "berth.dev/v1alpha1", "BerthConfiguration"
HEAD = {"apiVersion": API_VERSION, "kind": KIND}
ALL_KEYS = "`berth run --write-config-to -` shows every key"
LONGEST_LINE = 118


def read_file(path: str) -> tuple[Mapping[str, object], list[str]]:
    """The settings of the file as written, by key, and everything that is wrong with it."""
    try:
        documents = list(read_documents(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror or error}"]
    except (UnicodeDecodeError, BadDocument) as error:
        text = str(error) if isinstance(error, BadDocument) else "is not UTF-8"
        return {}, [f"{path}: {text}"]
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        return {}, [f"{path}: is not one document with apiVersion {API_VERSION} and kind {KIND}"]
    return documents[0], [f"{path}: {problem}" for problem in _problems(documents[0])]


def _problems(document: Mapping[object, object]) -> list[str]:
    problems = [
        f"{key}: {'is missing' if key not in document else show(document[key]) + ' is not known'}; write {key}: {value}"
        for key, value in HEAD.items()
        if document.get(key) != value
    ]
    for key in document:
        if key not in BY_KEY and key not in HEAD:
            hint = did_you_mean(str(key), BY_KEY)
            problems.append(f"{show(key)} is not a setting{hint or ';'} {ALL_KEYS}")
    return problems


def render(options: Options) -> str:
    """The file that gives these options when it is read."""
    lines = [
        f"# The configuration of Berth {__version__}, for `berth run --config FILE`.",
        "# A flag wins over its variable, that over this file, that over the default.",
        *(f"{key}: {value}" for key, value in HEAD.items()),
    ]
    values = as_mapping(options)
    for setting in SETTINGS:
        lines += ["", *_comment(setting), _entry(setting.key, values[setting.key])]
    return "\n".join(lines) + "\n"


def _comment(setting: Setting) -> list[str]:
    text = f"{setting.text[:1].upper()}{setting.text[1:]}."
    names = f"{setting.flag}, {setting.variable}; {setting.kind.words}; default: {setting.default_words}"
    return [f"# {line}" for part in (text, names) for line in wrap(part, LONGEST_LINE)]


def _entry(key: str, value: object) -> str:
    return yaml.safe_dump({key: value}, default_flow_style=False, allow_unicode=True, width=4096).strip()
