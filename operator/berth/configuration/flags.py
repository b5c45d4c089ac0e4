"""The settings as arguments of a command. They have no defaults and are no types of argparse: what is not given comes
from elsewhere, and what is invalid is reported in the same words wherever it was written.
"""

import argparse

from berth.configuration.reading import CONFIG_FLAG, CONFIG_VARIABLE
from berth.configuration.settings import SETTINGS, Setting
from berth.configuration.values import Switch

CONFIG_TEXT = f"read settings from this YAML file (variable: {CONFIG_VARIABLE})"
WRITE_FLAG = "--write-config-to"
WRITE_TEXT = "write the settings that are in effect to this file, - for standard output, and exit"


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(CONFIG_FLAG, metavar="FILE", help=CONFIG_TEXT)
    parser.add_argument(WRITE_FLAG, metavar="FILE", help=WRITE_TEXT)
    for setting in SETTINGS:
        text = f"{setting.text} (default: {setting.default_words})".replace("%", "%%")
        if isinstance(setting.kind, Switch):
            parser.add_argument(setting.flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            parser.add_argument(setting.flag, metavar=setting.metavar, help=text)


def given(options: argparse.Namespace) -> dict[str, str | bool | None]:
    """What the command line says of each setting."""
    return {setting.name: getattr(options, setting.name) for setting in SETTINGS}


def usage_of(setting: Setting) -> str:
    """The flag as documentation shows it."""
    if isinstance(setting.kind, Switch):
        return f"`{setting.flag}`, `--no-{setting.flag.removeprefix('--')}`"
    return f"`{setting.flag} {setting.metavar}`"
