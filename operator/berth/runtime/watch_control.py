"""Watch control: whether what the watches report is taken, and how watching ends and begins anew.

After a restore from a backup the store has older versions, and nothing of the time that is undone may be taken after
they have been given up. So watching ends first:

    Recovery                                    the watcher (`handlers`), between `watched` and its end
    end_watching: take nothing any more,
    ask for a restart (`restart_wanted`) -----> has ended its watches: watch_ended
    <------------------------------------------ ... waits
    ... starts over
    resume: take events again ----------------> watches again, from fresh lists

If nobody watches, there is nothing to wait for.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class WatchControl:
    """Shared by those who watch, those who take what is reported, and those who start over."""

    def __init__(self) -> None:
        self._watchers = 0
        self._takes_events = asyncio.Event()
        self._takes_events.set()
        self._has_ended = asyncio.Event()
        self.restart_wanted = asyncio.Event()
        """Set while watching has to end; `watch_ended` is called then."""

    @property
    def takes_events(self) -> bool:
        """Whether reported events are taken. They are not between the end of a watch and the start of the next."""
        return self._takes_events.is_set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Somebody watches, and ends and begins anew when that is wanted."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    async def watch_ended(self) -> None:
        """Nothing is handed over by an earlier watch any more; returns when the next one may begin."""
        self.restart_wanted.clear()
        self._has_ended.set()
        await self._takes_events.wait()

    def ignore_events(self) -> None:
        """Take nothing that is reported, until `resume`."""
        self._takes_events.clear()

    async def end_watching(self) -> None:
        """Take nothing any more; returns when the watches have ended."""
        self.ignore_events()
        if self._watchers:
            self._has_ended.clear()
            self.restart_wanted.set()
            await self._has_ended.wait()

    def resume(self) -> None:
        """Take what the next watches report."""
        self._takes_events.set()
