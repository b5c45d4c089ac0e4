"""PodCounts: how many pods that match a selector are on each row of the node table.

PodTopologySpread, InterPodAffinity and others need such counts. kube-scheduler walks over all pods for them in every
scheduling cycle; here they are maintained incrementally.

A question is a set of `PodMatch`es (selector and namespaces), of which a pod must meet all, or any. Its counts are
computed when it is asked for the first time. From then on, every pod that is added or removed updates them, until the
question is evicted because many others were asked since (least recently used). No operation walks over single pods:

    group     the placed pods of one namespace with equal labels (such as the replicas of a ReplicaSet), with a count
              per row. Selectors are matched against groups, not against pods
    counts    the sum over the groups that a question matches
    index     groups by label, to find those that a new question matches; questions by label or by namespace, to find
              those that match a new group. A question that names neither is wide. It has to be compared with every
              new group, so the number of wide questions is limited separately

Counts are sparse (a dict) while few rows have a count, and dense (a column) once many have.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from berth.engine.state.columns import grown
from berth.engine.verdict import BoolColumn, Int64Column
from berth.model import LabelSelector, Pod, Requirement

KEPT_QUESTIONS: Final = 512
KEPT_WIDE: Final = 256  # requirements of all wide questions together: what a new group costs at most
_KEPT_SUMS: Final = 8  # topology keys per question for which sums by domain are maintained
_DENSE_FROM: Final = 64
_MANY_COUNTS: Final = 1024
_LARGE_GROUP: Final = 4  # from so many rows on, a group caches them as arrays

NamespaceLabels = Callable[[str], Mapping[str, str] | None]
E = TypeVar("E", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PodMatch:
    """Pods whose labels match `selector` (None: no pod), in one of `namespaces`, or in a namespace whose labels match
    `namespace_selector`.
    """

    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None

    def covers(self, namespace: str, namespace_labels: NamespaceLabels) -> bool:
        """Whether pods of the namespace can match; an unknown namespace never matches by its labels."""
        if namespace in self.namespaces or self.namespace_selector is None:
            return namespace in self.namespaces
        labels = namespace_labels(namespace)
        return labels is not None and self.namespace_selector.matches(labels)


class Extent(Protocol):
    """What counts need to know of the node table: the length of its columns, and the version of its nodes."""

    static_version: int

    @property
    def capacity(self) -> int: ...


class RowCounts:
    """How many pods of one kind are on each row. Returned columns are shared: callers must not write them."""

    __slots__ = ("_arrays", "_column", "_extent", "_few", "_summed_at", "_sums", "dropped", "settlement", "version")

    def __init__(self, extent: Extent) -> None:
        self.version = 0
        self.settlement = 0  # moves when a domain in `_sums` gets its first pod or loses its last
        self.dropped = False  # evicted and no longer updated: a plugin that holds them must call `PodCounts.of` again
        self._extent = extent
        self._few: dict[int, int] | None = {}
        self._column: Int64Column = np.zeros(0, dtype=np.int64)
        self._arrays: tuple[Int64Column, Int64Column] | None = None
        self._sums: list[tuple[Int64Column, Int64Column]] = []  # (domain ids by row, count by domain id)
        self._summed_at = 0  # the `static_version` at which `_sums` were computed

    def add(self, row: int, pods: int) -> None:
        """Adds `pods`, which may be negative, to the count of a row, and to the sum of its domain."""
        self.version += 1
        if self._sums and self._summed_at != self._extent.static_version:
            self._sums.clear()
        for domains, sums in self._sums:
            if row < len(domains) and (domain := domains.item(row)) >= 0:
                before = sums.item(domain)
                sums[domain] = before + pods
                if not before or before == -pods:
                    self.settlement += 1
        few = self._few
        if few is None:
            if row >= len(self._column):
                self._column = grown(self._column, 2 * row)
            self._column[row] = self._column.item(row) + pods
            return
        self._arrays = None
        count = few.get(row, 0) + pods
        if count:
            few[row] = count
        else:
            few.pop(row, None)

    def add_many(self, counts: Mapping[int, int]) -> None:
        """Adds counts by row."""
        if not self._few and not self._sums and self._few is not None:
            self._few, self._arrays = dict(counts), None
            self.version += 1
        elif len(counts) < _DENSE_FROM:
            for row, pods in counts.items():
                self.add(row, pods)
        else:
            self._sums.clear()
            column = self.column().copy()
            rows = np.fromiter(counts.keys(), np.int64, len(counts))
            column[rows] += np.fromiter(counts.values(), np.int64, len(counts))
            self._few, self._arrays, self._column = None, None, column
            self.version += 1

    def fill(self, groups: Sequence[_Group]) -> None:
        """Adds the pods of all groups. The counts must be empty. Many are added in one numpy call, few in a loop."""
        if sum(len(group.rows) for group in groups) <= _MANY_COUNTS:
            for group in groups:
                self.add_many(group.rows)
            return
        large = [group.counted() for group in groups if len(group.rows) >= _LARGE_GROUP]
        small = [group.rows for group in groups if len(group.rows) < _LARGE_GROUP]
        size = sum(map(len, small))
        rows = np.fromiter(chain.from_iterable(small), np.int64, size)
        pods = np.fromiter(chain.from_iterable(counts.values() for counts in small), np.int64, size)
        self.refill(
            np.concatenate([rows, *(rows for rows, _ in large)]), np.concatenate([pods, *(pods for _, pods in large)])
        )

    def copy(self) -> RowCounts:
        """Returns an independent copy."""
        counts = RowCounts(self._extent)
        counts._few = None if self._few is None else dict(self._few)
        counts._column = self._column.copy()
        return counts

    def refill(self, rows: Int64Column, pods: Int64Column) -> None:
        """Replaces all counts by these pods on these rows; a row may occur several times."""
        column = np.zeros(max(self._extent.capacity, int(rows.max(initial=-1)) + 1), dtype=np.int64)
        np.add.at(column, rows, pods)
        counting = column.nonzero()[0]
        self._few = self._arrays = None
        self._column = column
        if len(counting) <= _DENSE_FROM:
            self._few = dict(zip(counting.tolist(), column[counting].tolist(), strict=True))
            self._column = column[:0].copy()
        self._sums.clear()
        self.version += 1
        self.settlement += 1

    def column(self) -> Int64Column:
        """Returns int64[all rows]: the count of each row. Switches to a dense column once many rows have a count."""
        rows = self._extent.capacity
        if self._few is not None and len(self._few) > max(_DENSE_FROM, rows // 16):
            self._column = self._spread(rows)
            self._few = self._arrays = None
        if self._few is not None:
            return self._spread(rows)
        if len(self._column) < rows:
            self._column = grown(self._column, rows)
        return self._column[:rows]

    def at(self, row: int) -> int:
        """Returns the count of one row."""
        if self._few is not None:
            return self._few.get(row, 0)
        return self._column.item(row) if row < len(self._column) else 0

    def counted(self) -> tuple[Int64Column, Int64Column]:
        """Returns the rows whose count is not 0, in no particular order, and their counts."""
        if self._few is None:
            rows = np.flatnonzero(self._column)
            return rows, self._column[rows]
        if self._arrays is None:
            size = len(self._few)
            rows = np.fromiter(self._few.keys(), np.int64, size)
            self._arrays = rows, np.fromiter(self._few.values(), np.int64, size)
        return self._arrays

    def add_to(self, column: Int64Column, weight: int) -> None:
        """Adds each row's count times the weight to a column, which may have fewer rows."""
        if self._few is None:
            size = min(len(column), len(self._column))
            column[:size] += weight * self._column[:size]
        else:
            rows, counts = self.counted()
            inside = rows < len(column)
            column[rows[inside]] += weight * counts[inside]

    def cached_sums(self) -> list[tuple[Int64Column, Int64Column]]:
        """Returns the cached results of `per_domain` that are valid now: domain ids by row, and the sum of each id."""
        return list(self._sums) if self._summed_at == self._extent.static_version else []

    def per_domain(self, domains: Int64Column, size: int) -> Int64Column:
        """Returns int64[size]: the sum for each domain; `domains` are the ids by row, a row with id -1 is left out.

        The sums are cached, and `add` maintains them, until the labels of nodes change. `domains` is compared by
        identity: the table returns the same array until then.
        """
        version = self._extent.static_version
        if version != self._summed_at:
            self._sums.clear()
            self._summed_at = version
        for kept in self._sums:
            known, sums = kept
            if known is domains:
                if len(sums) >= size:
                    return sums[:size]
                self._sums = [other for other in self._sums if other is not kept]
                break
        rows, counts = self.counted()
        inside = rows < len(domains)
        if not inside.all():
            rows, counts = rows[inside], counts[inside]
        sums = np.zeros(size + 1, dtype=np.int64)  # the last entry collects rows with id -1
        np.add.at(sums, domains[rows], counts)
        sums = sums[:size]
        self.settlement += 1
        self._sums.append((domains, sums))
        del self._sums[:-_KEPT_SUMS]
        return sums

    def __bool__(self) -> bool:
        return bool(self._few) if self._few is not None else bool(self._column.any())

    def _spread(self, rows: int) -> Int64Column:
        numbers, counts = self.counted()
        column = np.zeros(rows, dtype=np.int64)
        column[numbers] = counts
        return column


def rows_with(counters: Iterable[RowCounts], capacity: int) -> BoolColumn:
    """Returns bool[capacity]: the rows on which any of these counts is not 0."""
    found = np.zeros(capacity, dtype=np.bool_)
    for counts in counters:
        found[counts.counted()[0]] = True
    return found


class LabelIndex(Generic[E]):
    """Entries by the labels that their selectors require, so that a pod's labels find the entries that may match it.

    An entry is indexed under one requirement only, the one with the fewest values. An entry without a requirement that
    names values is wide: it is a candidate for every pod.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[E, None]] = {}
        self._others: dict[E, None] = {}

    def add(self, entry: E, selectors: Iterable[LabelSelector]) -> None:
        wanted = narrowest(selectors)
        if wanted is None:
            self._others[entry] = None
        else:
            for value in wanted.values:
                self._by_label.setdefault((wanted.key, value), {})[entry] = None

    def discard(self, entry: E, selectors: Iterable[LabelSelector]) -> None:
        wanted = narrowest(selectors)
        if wanted is None:
            del self._others[entry]
        else:
            for value in wanted.values:
                found = self._by_label[wanted.key, value]
                del found[entry]
                if not found:
                    del self._by_label[wanted.key, value]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[E]:
        """Yields every entry that may match these labels, once."""
        yield from self.wide
        yield from self.named(labels)

    @property
    def wide(self) -> Collection[E]:
        """The entries that name no value of a label: they may match any labels."""
        return self._others

    def named(self, labels: Mapping[str, str]) -> Iterator[E]:
        """Yields the entries that are indexed under one of these labels, once."""
        if self._by_label:
            for label in labels.items():
                yield from self._by_label.get(label, ())

    def compact(self) -> None:
        self._by_label = {label: dict(entries) for label, entries in self._by_label.items()}
        self._others = dict(self._others)

    def __bool__(self) -> bool:
        return bool(self._others or self._by_label)


def narrowest(selectors: Iterable[LabelSelector]) -> Requirement | None:
    """Returns the `In` requirement with the fewest values; None if there is none."""
    naming = [r for selector in selectors for r in selector.requirements if r.operator == "In"]
    return min(naming, key=lambda requirement: len(requirement.values), default=None)


class _Group:
    """The placed pods of one namespace that have equal labels, and are all terminating or all not."""

    __slots__ = ("_arrays", "deleting", "labels", "namespace", "questions", "rows")

    def __init__(self, pod: Pod) -> None:
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.deleting = pod.deleting
        self.rows: dict[int, int] = {}
        self._arrays: tuple[Int64Column, Int64Column] | None = None
        self.questions: dict[_Question, None] = {}

    def move(self, row: int, sign: int) -> None:
        """Counts a pod that was added to the row (1) or removed from it (-1)."""
        count = self.rows.get(row, 0) + sign
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]
        self._arrays = None

    def counted(self) -> tuple[Int64Column, Int64Column]:
        """Returns the rows that have pods of the group, and how many; cached for the next question that matches."""
        if self._arrays is None:
            size = len(self.rows)
            rows = np.fromiter(self.rows.keys(), np.int64, size)
            self._arrays = rows, np.fromiter(self.rows.values(), np.int64, size)
        return self._arrays


class _Question:
    """A question, its counts, and the groups that it matches."""

    __slots__ = ("any_of", "counts", "groups", "matches", "selectors", "terminating")

    def __init__(self, matches: tuple[PodMatch, ...], terminating: bool, any_of: bool, extent: Extent) -> None:
        self.matches = matches
        self.terminating = terminating
        self.any_of = any_of
        self.selectors = [match.selector for match in matches if match.selector is not None]
        self.counts = RowCounts(extent)
        self.groups: dict[_Group, None] = {}

    def matches_group(self, group: _Group, namespace_labels: NamespaceLabels) -> bool:
        if group.deleting and not self.terminating:
            return False
        for match, selector in zip(self.matches, self.selectors, strict=True):
            met = match.covers(group.namespace, namespace_labels) and selector.matches(group.labels)
            if met is self.any_of:
                return met
        return not self.any_of

    @property
    def key(self) -> Hashable:
        """The key in `PodCounts._questions`."""
        return self.matches, self.terminating, self.any_of

    @property
    def indexed(self) -> Sequence[LabelSelector]:
        """The selectors that a matching group meets all of; none if it need only meet any."""
        return () if self.any_of else self.selectors

    @property
    def size(self) -> int:
        """The cost of comparing one group with the question, in requirements."""
        return sum(1 + len(selector.requirements) for selector in self.selectors)

    @property
    def namespaces(self) -> Collection[str] | None:
        """The namespaces whose groups can match; None if namespace selectors decide."""
        named = [match.namespaces for match in self.matches if match.namespace_selector is None]
        if self.any_of:
            return frozenset[str]().union(*named) if len(named) == len(self.matches) else None
        return min(named, key=len, default=None)


class PodCounts:
    def __init__(self, extent: Extent, namespace_labels: NamespaceLabels) -> None:
        self._extent = extent
        self._namespace_labels = namespace_labels
        self._groups: dict[Hashable, _Group] = {}
        self._by_namespace: dict[str, dict[_Group, None]] = {}
        self._by_label: dict[tuple[str, str], dict[str, dict[_Group, None]]] = {}
        self._questions: dict[Hashable, _Question] = {}
        self._by_use: OrderedDict[_Question, None] = OrderedDict()  # least recently used first
        self._index: LabelIndex[_Question] = LabelIndex()
        self._in_namespace: dict[str, dict[_Question, None]] = {}
        self._wide: OrderedDict[_Question, None] = OrderedDict()
        self._wide_requirements = 0

    # --- asking ------------------------------------------------------------------------------------------------------

    def of(self, matches: tuple[PodMatch, ...], terminating: bool = True, any_of: bool = False) -> RowCounts:
        """Returns the counts of pods that meet all (or any) of these; without `terminating`, deleted pods are left out.

        The result is shared and updated in place, until it is `dropped`.
        """
        key = (matches, terminating, any_of)
        question = self._questions.get(key)
        if question is not None:
            self._by_use.move_to_end(question)
            if question in self._wide:
                self._wide.move_to_end(question)
            return question.counts
        question = _Question(matches, terminating, any_of, self._extent)
        if len(question.selectors) < len(matches):
            return question.counts  # a missing selector never matches anything: nothing to maintain
        found = [group for group in self._matching(question) if terminating or not group.deleting]
        question.groups.update(dict.fromkeys(found))
        for group in found:
            group.questions[question] = None
        question.counts.fill(found)
        self._questions[key] = question
        self._by_use[question] = None
        self._index_question(question)
        if len(self._questions) > KEPT_QUESTIONS:
            self._forget(next(iter(self._by_use)))
        while self._wide_requirements > KEPT_WIDE and len(self._wide) > 1:
            self._forget(next(iter(self._wide)))
        return question.counts

    def _index_question(self, question: _Question) -> None:
        if narrowest(question.indexed) is not None:
            self._index.add(question, question.indexed)
        elif question.namespaces is not None:
            for namespace in question.namespaces:
                self._in_namespace.setdefault(namespace, {})[question] = None
        else:
            self._wide[question] = None
            self._wide_requirements += question.size

    def _unindex_question(self, question: _Question) -> None:
        if question in self._wide:
            del self._wide[question]
            self._wide_requirements -= question.size
            return
        if narrowest(question.indexed) is not None:
            self._index.discard(question, question.indexed)
            return
        for namespace in question.namespaces or ():
            found = self._in_namespace[namespace]
            del found[question]
            if not found:
                del self._in_namespace[namespace]

    def _matching(self, question: _Question) -> Iterable[_Group]:
        """Returns the groups that meet the matches, each once, terminating ones included."""
        if not question.any_of:
            return self._meeting(question.matches, question.selectors)
        each = zip(question.matches, question.selectors, strict=True)
        return dict.fromkeys(group for match, selector in each for group in self._meeting((match,), (selector,)))

    def _meeting(self, matches: Sequence[PodMatch], selectors: Sequence[LabelSelector]) -> Iterator[_Group]:
        """Yields the groups that meet all of these, found by label if a selector names one.

        There may be as many groups as pods, so the inner loop only compares labels; namespaces are checked outside it.
        """
        wanted = narrowest(selectors)
        if wanted is None:
            places: list[dict[str, dict[_Group, None]]] = [self._by_namespace]
        else:
            places = [self._by_label.get((wanted.key, value), {}) for value in wanted.values]
        requirements = [requirement for selector in selectors for requirement in selector.requirements]
        match = min(matches, key=lambda m: (m.namespace_selector is not None, len(m.namespaces)))
        for groups in places:
            named = match.namespaces if match.namespace_selector is None else list(groups)
            for namespace in named:
                found = groups.get(namespace)
                if found and all(each.covers(namespace, self._namespace_labels) for each in matches):
                    for group in found:
                        labels = group.labels
                        for requirement in requirements:
                            if not requirement.matches(labels):
                                break
                        else:
                            yield group

    def _join(self, question: _Question, group: _Group) -> None:
        question.groups[group] = None
        group.questions[question] = None
        question.counts.add_many(group.rows)

    def _forget(self, question: _Question) -> None:
        del self._questions[question.key]
        del self._by_use[question]
        question.counts.dropped = True
        self._unindex_question(question)
        for group in question.groups:
            del group.questions[question]

    # --- following ---------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, row: int) -> None:
        group = self._groups.get(pod.crowd)
        if group is None:
            group = self._groups[pod.crowd] = self._found(pod)
        group.move(row, 1)
        for question in group.questions:
            question.counts.add(row, 1)

    def discard(self, pod: Pod, row: int) -> None:
        group = self._groups[pod.crowd]
        for question in group.questions:
            question.counts.add(row, -1)
        group.move(row, -1)
        if not group.rows:
            del self._groups[pod.crowd]
            self._lose(group)

    def compact(self) -> None:
        self._groups = dict(self._groups)
        self._by_namespace = _compacted(self._by_namespace)
        self._by_label = {label: _compacted(places) for label, places in self._by_label.items()}

    def namespace_changed(self) -> None:
        """Drops the questions with namespace selectors: namespaces were added or removed, or their labels changed."""
        through_labels = [
            question
            for question in self._questions.values()
            if any(match.namespace_selector is not None for match in question.matches)
        ]
        for question in through_labels:
            self._forget(question)

    def _found(self, pod: Pod) -> _Group:
        group = _Group(pod)
        self._by_namespace.setdefault(group.namespace, {})[group] = None
        for label in group.labels.items():
            self._by_label.setdefault(label, {}).setdefault(group.namespace, {})[group] = None
        asked = self._in_namespace.get(group.namespace, {})
        for question in chain(self._index.candidates(group.labels), asked, self._wide):
            if question.matches_group(group, self._namespace_labels):
                self._join(question, group)
        return group

    def _lose(self, group: _Group) -> None:
        for question in group.questions:
            del question.groups[group]
        _take_out(self._by_namespace, group.namespace, group)
        for label in group.labels.items():
            places = self._by_label[label]
            _take_out(places, group.namespace, group)
            if not places:
                del self._by_label[label]

    def questions(self) -> dict[Hashable, RowCounts]:
        """Returns the counts that were asked for and are maintained, by what was asked."""
        return {key: question.counts for key, question in self._questions.items()}

    def statistics(self) -> dict[str, int]:
        return {
            "pod_groups": len(self._groups),
            "pod_questions": len(self._questions),
            "wide_questions": len(self._wide),
        }


def _compacted(places: dict[str, dict[_Group, None]]) -> dict[str, dict[_Group, None]]:
    return {namespace: dict(groups) for namespace, groups in places.items()}


def _take_out(places: dict[str, dict[_Group, None]], namespace: str, group: _Group) -> None:
    del places[namespace][group]
    if not places[namespace]:
        del places[namespace]
