"""Trial moves: the node table as if some pods had been added and others removed, for the length of a block."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from berth.engine.plugin import Query
from berth.engine.state.node_table import NodeTable
from berth.model import Pod


@contextmanager
def moved(
    query: Query, table: NodeTable, add: Sequence[tuple[Pod, str]] = (), remove: Sequence[tuple[Pod, str]] = ()
) -> Iterator[None]:
    """Adds and removes these pods in the table for the duration of the block, and restores it afterwards.

    `query.memo` is cleared both times: it holds what plugins computed from the table before.
    """
    query.memo.clear()
    gone: list[tuple[Pod, str]] = []
    came: list[Pod] = []
    with table.trying():
        try:
            for pod, node_name in remove:
                table.remove_pod(pod.uid)
                gone.append((pod, node_name))
            for pod, node_name in add:
                table.add_pod(pod, node_name)
                came.append(pod)
            yield
        finally:
            for pod in came:
                table.remove_pod(pod.uid)
            for pod, node_name in gone:
                table.add_pod(pod, node_name)
            query.memo.clear()
