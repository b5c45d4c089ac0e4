"""Pages of long lists, collected in the scheduler's loop in short steps, with pauses in which decisions are made."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Generic, TypeVar

from berth.explain_api.port import Body, Found, Key, Labels, Wanted
from berth.scheduler.ports import Clock

SLICE_SECONDS = 0.002
REST = 3.0  # pause after a slice, as a multiple of its duration: questions take a quarter of the time at most
SORTED_AT_ONCE = 100

Source = TypeVar("Source")


class Slices:
    """Divides a computation: `breathe` is called often, and pauses when a slice is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()

    async def breathe(self) -> None:
        spent = self._clock.now() - self._began
        if spent >= SLICE_SECONDS:
            await self._clock.sleep(REST * spent)
            self._began = self._clock.now()


class Collection(Generic[Source]):
    """What a list is made from: candidates, the key and labels of each, and how its body is made.

    A body of None: the candidate has gone meanwhile.
    """

    def __init__(
        self,
        candidates: Iterable[Source],
        key: Callable[[Source], Key],
        labels: Callable[[Source], Labels],
        body: Callable[[Source], Body | None],
    ) -> None:
        self._candidates = candidates
        self._key = key
        self._labels = labels
        self._body = body

    async def page(self, wanted: Wanted, slices: Slices) -> Found:
        """Returns the candidates that are wanted, in the order of their keys."""
        runs: list[list[tuple[Key, Source]]] = []
        candidates = iter(self._candidates)
        while some := list(islice(candidates, SORTED_AT_ONCE)):
            runs.append(sorted(self._wanted_of(some, wanted), key=itemgetter(0)))
            await slices.breathe()
        rest, items = sum(map(len, runs)), list[Body]()
        for _, source in heapq.merge(*runs, key=itemgetter(0)):
            if len(items) >= wanted.limit:
                break
            rest -= 1
            body = self._body(source)
            if body is not None and wanted.fields(body):
                items.append(body)
            await slices.breathe()
        return Found(items, rest)

    def _wanted_of(self, some: Iterable[Source], wanted: Wanted) -> Iterator[tuple[Key, Source]]:
        for source in some:
            key = self._key(source)
            is_there = wanted.namespace is None or key[0] == wanted.namespace
            if key > wanted.after and is_there and wanted.labels(self._labels(source)):
                yield key, source
