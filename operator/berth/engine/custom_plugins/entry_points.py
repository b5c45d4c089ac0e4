"""Discovery of plugins of other packages, by the entry points of the group `berth.plugins`.

    [project.entry-points."berth.plugins"]
    RackPower = "berth_rack_power:RackPower"

Names are read from the metadata of installed packages, again whenever a folder on the path has changed. A package is
imported when a policy first names its plugin. A failure is raised to the caller that looks the plugin up, and the next
look-up tries again. It does not affect other plugins and policies.
"""

import importlib
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from berth.engine.custom_plugins.plugin_validation import in_words
from berth.engine.custom_plugins.sandbox import guarded, problem_of
from berth.engine.plugin import Plugin

GROUP = "berth.plugins"

_log = logging.getLogger(__name__)


class Unusable(Exception):
    """A plugin is installed, but cannot be used; the text names its package and the reason."""


@dataclass(frozen=True, slots=True)
class PluginOffer:
    """One package's entry point."""

    point: EntryPoint

    @property
    def package(self) -> str:
        """Its name and version."""
        dist = self.point.dist
        return f"package {dist.name} {dist.version}" if dist is not None else "a package without a name"

    def __str__(self) -> str:
        return f"{self.package}, entry point {self.point.name} = {self.point.value}"


class InstalledPlugins:
    """The plugins of the packages on the path, by name; names in `taken` are Berth's own and are not used."""

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = taken
        self._stamp: object = None
        self._offers: Mapping[str, Sequence[PluginOffer]] = {}
        self._loaded: dict[tuple[str, str], type[Plugin]] = {}
        self._warned: set[str] = set()

    def names(self) -> Collection[str]:
        """Returns the names of all plugins of installed packages, usable or not, sorted."""
        self._look()
        return self._offers.keys()

    def find(self, name: str) -> type[Plugin] | None:
        """Returns the plugin's class in the sandbox; None if no package has one. Raises `Unusable`."""
        self._look()
        offers = self._offers.get(name)
        if offers is None:
            return None
        if len(offers) > 1:
            raise Unusable(
                f"several packages offer {name}: {'; '.join(map(str, offers))}. Uninstall all but one of them"
            )
        key = (name, offers[0].point.value)
        if key not in self._loaded:
            self._loaded[key] = _load(offers[0])
        return self._loaded[key]

    def _look(self) -> None:
        stamp = [(folder, _changed(folder)) for folder in sys.path]
        if stamp == self._stamp:
            return
        importlib.invalidate_caches()
        self._offers = self._sorted_out(map(PluginOffer, entry_points(group=GROUP)))
        self._stamp = stamp

    def _sorted_out(self, offers: Iterable[PluginOffer]) -> Mapping[str, Sequence[PluginOffer]]:
        free: defaultdict[str, list[PluginOffer]] = defaultdict(list)
        for offer in sorted(offers, key=lambda offer: (offer.point.name, str(offer))):
            if offer.point.name not in self._taken:
                free[offer.point.name].append(offer)
            elif str(offer) not in self._warned:
                self._warned.add(str(offer))
                _log.warning("the plugin of %s is not used: %s is a name of Berth's own", offer, offer.point.name)
        return free


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _load(offer: PluginOffer) -> type[Plugin]:
    try:
        kind = offer.point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # third-party code may raise anything
        raise Unusable(f"{offer}: cannot be imported: {in_words(error)}") from error
    problem = problem_of(kind)
    if problem:
        raise Unusable(f"{offer}: {problem}")
    try:
        return guarded(kind, offer.point.name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # third-party code may raise anything
        raise Unusable(f"{offer}: cannot be derived from: {in_words(error)}") from error
