"""Modules that are imported when they are needed, and not before.

A package that hands out names of its modules would otherwise import all of them for a caller that needs one.
"""

import gc
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


def names_of(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """The package's `__getattr__`; `homes`: module to the names that the package hands out of it."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return find


def import_at_once(name: str) -> ModuleType:
    """The module, imported without the garbage collector: modules stay, and it would walk through all of them again and
    again, which takes a sixth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_enabled:
            gc.enable()
