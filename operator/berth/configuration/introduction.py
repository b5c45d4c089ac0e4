"""What a process says first: which version runs, and with which configuration."""

import logging
import platform

import orjson

from berth import __version__
from berth.configuration.options import Options
from berth.configuration.settings import as_mapping

_log = logging.getLogger(__name__)


def introduce(options: Options) -> None:
    configuration = as_mapping(options)
    text = orjson.dumps(configuration).decode()
    extra = {"version": __version__, "python": platform.python_version(), "configuration": configuration}
    _log.info("Berth %s begins, with the configuration %s", __version__, text, extra=extra)
