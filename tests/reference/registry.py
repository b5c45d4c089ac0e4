"""Every plugin by its name. A module of plugins lists them in its PLUGINS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .plugin import Plugin
from .plugins import images, interpod, legacy, nodes, ports, resources, spread, volumes

REGISTRY: Mapping[str, type[Plugin]] = {
    plugin.name: plugin
    for module in (nodes, resources, ports, images, interpod, spread, volumes, legacy)
    for plugin in module.PLUGINS
}


def make(name: str, args: Mapping[str, Any]) -> Plugin:
    return REGISTRY[name](args)
