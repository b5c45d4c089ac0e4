"""The heap against a sorted list."""

from hypothesis import given
from hypothesis import strategies as st

from berth.scheduler.queue.heap import Heap

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.sampled_from("abcdefgh"), st.integers(0, 5)),
        st.tuples(st.just("discard"), st.sampled_from("abcdefgh"), st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.just(0)),
    ),
    max_size=200,
)


@given(OPERATIONS)
def test_a_heap_gives_what_a_sorted_list_gives(operations: list[tuple[str, str, int]]) -> None:
    heap: Heap[str] = Heap()
    listed: dict[str, tuple[float, ...]] = {}
    for operation, uid, order in operations:
        if operation == "push":
            listed[uid] = (order, ord(uid))
            heap.push(uid, listed[uid], uid.upper())
        elif operation == "discard":
            there = listed.pop(uid, None) is not None
            assert heap.discard(uid) == there
        else:
            first = min(listed, key=lambda uid: listed[uid], default=None)
            assert heap.pop() == (first.upper() if first else None)
            listed.pop(first or "", None)
        assert len(heap) == len(listed)
        assert all((uid in heap) == (uid in listed) for uid in "abcdefgh")
        assert sorted(heap) == sorted(uid.upper() for uid in listed)


def test_struck_entries_do_not_pile_up() -> None:
    heap: Heap[int] = Heap()
    for turn in range(10_000):
        heap.push("same", (turn,), turn)
    assert heap.entries < 100
    assert heap.pop() == 9_999
