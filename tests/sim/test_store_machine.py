"""Whoever lists, and then watches from the list's version, knows what a fresh list says: any time, for any selection.

Observers with selectors and namespaces list, watch, apply events, and get cut off; writers create, change, bind, mark
and delete; the history is short and is compacted. An observer whose version is forgotten gets 410 and lists again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.sim.errors import StatusError
from berth.sim.resources import NAMESPACES, PODS
from berth.sim.store import Page, Store
from berth.sim.store.history import Watch
from sim.world import World, binding

SPACES = ("one", "one-b", "two")
NAMES = st.sampled_from(("a", "b", "c"))
SPACE = st.sampled_from(SPACES)
TIERS = st.sampled_from(("front", "back", None))
LABELS = ("", "tier=front", "tier!=front", "!tier", "tier in (front,back)")
FIELDS = ("", "spec.nodeName=", "spec.nodeName!=", "metadata.name=a", "status.phase!=Running")


@dataclass
class Observer:
    """Someone who knows objects by a list and a watch."""

    store: Store
    namespace: str
    labels: str
    fields: str
    objects: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    watch: Watch | None = None

    def relist(self, limit: int) -> None:
        self.close()
        self.objects.clear()
        token = ""
        while True:
            try:
                page = self._list(limit, token)
            except StatusError as error:
                expect(error, 410)
                self.objects.clear()
                token = ""
                continue
            self.objects |= {key(body): body for body in page.items}
            token = page.continue_
            if not token:
                self.version = page.resource_version
                return

    def _list(self, limit: int, token: str) -> Page:
        return self.store.list(
            PODS,
            self.namespace,
            label_selector=self.labels,
            field_selector=self.fields,
            limit=limit,
            continue_=token,
        )

    def follow(self) -> None:
        """Watch from the version that is known; list again if that is too old."""
        if self.watch is not None:
            return
        try:
            self.watch = self.store.watch(
                PODS,
                self.namespace,
                label_selector=self.labels,
                field_selector=self.fields,
                resource_version=self.version,
                bookmarks=True,
            )
        except StatusError as error:
            expect(error, 410)
            self.relist(0)
            self.follow()

    def read(self, at_most: int | None = None) -> None:
        """Apply what the watch says; cut off in the middle, the rest is asked for again."""
        assert self.watch is not None
        for kind, body in self.watch.take_ready()[:at_most]:
            assert int(body["metadata"]["resourceVersion"]) >= int(self.version)
            self.version = body["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                continue
            assert (key(body) in self.objects) is (kind != "ADDED"), (kind, key(body))
            if kind == "DELETED":
                del self.objects[key(body)]
            else:
                self.objects[key(body)] = body
        if at_most is not None:
            self.close()

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()
            self.watch = None


@dataclass
class Reader:
    """Someone who reads a list page by page while others write."""

    expected: list[Any]
    read: list[Any]
    token: str


def expect(error: StatusError, *codes: int) -> None:
    assert error.code in codes, error.message


def key(body: Any) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


class ListsAndWatches(RuleBasedStateMachine):
    @initialize(history=st.sampled_from((3, 10, 1000)))
    def begin(self, history: int) -> None:
        self.world = World(history=history)
        self.store = self.world.store
        for namespace in SPACES:
            self.store.create(NAMESPACES, {"metadata": {"name": namespace}})
        self.observers = [
            Observer(self.store, namespace, labels, fields)
            for namespace in ("", "one")
            for labels in LABELS
            for fields in FIELDS
        ]
        for observer in self.observers:
            observer.relist(0)
        self.readers: list[Reader] = []

    # -- writers -----------------------------------------------------------------------------------------------------

    @rule(namespace=SPACE, name=NAMES, tier=TIERS, held=st.booleans())
    def create(self, namespace: str, name: str, tier: str | None, held: bool) -> None:
        metadata = {"finalizers": ["example.com/held"]} if held else {}
        labels = {"tier": tier} if tier else None
        self._try(lambda: self.world.add_pod(name, namespace=namespace, labels=labels, metadata=metadata))

    @rule(namespace=SPACE, name=NAMES, tier=TIERS)
    def relabel(self, namespace: str, name: str, tier: str | None) -> None:
        patch = {"metadata": {"labels": {"tier": tier}}}
        self._try(lambda: self.store.patch(PODS, namespace, name, patch, "merge"))

    @rule(namespace=SPACE, name=NAMES, phase=st.sampled_from(("Running", "Failed")))
    def report(self, namespace: str, name: str, phase: str) -> None:
        patch = {"status": {"phase": phase}}
        self._try(lambda: self.store.patch(PODS, namespace, name, patch, "merge", subresource="status"))

    @rule(namespace=SPACE, name=NAMES)
    def bind(self, namespace: str, name: str) -> None:
        self._try(lambda: self.store.bind(namespace, name, binding(name, "node-1")))

    @rule(namespace=SPACE, name=NAMES, grace=st.sampled_from((None, 0, 5)))
    def delete(self, namespace: str, name: str, grace: int | None) -> None:
        self._try(lambda: self.store.delete(PODS, namespace, name, grace_period_seconds=grace))

    @rule(namespace=SPACE, name=NAMES)
    def release(self, namespace: str, name: str) -> None:
        self._try(lambda: self.store.patch(PODS, namespace, name, {"metadata": {"finalizers": None}}, "merge"))

    @rule(namespace=SPACE)
    def delete_all(self, namespace: str) -> None:
        self.store.delete_collection(PODS, namespace, grace_period_seconds=0)

    @rule()
    def compact(self) -> None:
        self.store.compact()

    # -- observers ---------------------------------------------------------------------------------------------------

    @rule(at_most=st.none() | st.integers(0, 3))
    def all_read(self, at_most: int | None) -> None:
        for observer in self.observers:
            observer.follow()
            observer.read(at_most)

    @rule(limit=st.integers(0, 3))
    def some_relist(self, limit: int) -> None:
        for observer in self.observers[::7]:
            observer.relist(limit)

    @rule(limit=st.integers(1, 3))
    def begin_to_read(self, limit: int) -> None:
        page = self.store.list(PODS, limit=limit)
        self.readers.append(Reader(self.store.list(PODS).items, page.items, page.continue_))

    @rule(limit=st.integers(1, 3))
    def read_on(self, limit: int) -> None:
        """Pages are of one version, or the reader is told that it is forgotten."""
        for reader in self.readers:
            if not reader.token:
                continue
            try:
                page = self.store.list(PODS, limit=limit, continue_=reader.token)
            except StatusError as error:
                expect(error, 410)
                reader.token, reader.read = "", reader.expected
            else:
                reader.read, reader.token = reader.read + page.items, page.continue_
        for reader in self.readers:
            assert reader.token or reader.read == reader.expected
        self.readers = [reader for reader in self.readers if reader.token]

    @rule()
    def bookmarks(self) -> None:
        for observer in self.observers:
            if observer.watch is not None:
                observer.watch.bookmark()

    @invariant()
    def following_leads_to_what_a_fresh_list_says(self) -> None:
        for observer in self.observers[::11]:
            self._check(observer)

    def teardown(self) -> None:
        for observer in getattr(self, "observers", ()):
            self._check(observer)

    def _check(self, observer: Observer) -> None:
        observer.follow()
        observer.read()
        fresh = Observer(self.store, observer.namespace, observer.labels, observer.fields)
        fresh.relist(2)
        assert observer.objects == fresh.objects

    def _try(self, write: Any) -> None:
        try:
            write()
        except StatusError as error:
            expect(error, 404, 409)


TestListsAndWatches = ListsAndWatches.TestCase
TestListsAndWatches.settings = settings(max_examples=30, stateful_step_count=40)
