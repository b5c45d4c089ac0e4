"""State dump: everything that decisions depend on, as text. SIGUSR2 writes it to the log.

    Node n1: cpu 3500m of 4000m, memory 1Gi of 16Gi, pods 2 of 110, cordoned, taint dedicated=gpu:NoSchedule
    Node n1 runs: default/web-1 [uid], default/web-2 [uid] (assumed)
    Assumed: default/web-2 [uid] on n1, not acknowledged by the API server yet
    Nominated: default/big [uid] to n2
    Unschedulable: default/big [uid] of berth, priority 100, attempts 3: no node fits by NodeResourcesFit, ...

Every node and pod has at least one line. No line is longer than LINE characters unless a single name is. Lines are
generated while they are read, from the cluster at that moment, so the reader may pause between any two of them. They
contain names, amounts and states only: no annotations, no environment, no commands.
"""

import logging
from collections.abc import Callable, Iterable, Iterator

from berth.engine.state.node_table import NodeTable
from berth.engine.state.resources import FIRST_RESOURCES
from berth.model import Node, Pod
from berth.policy.wording import count
from berth.scheduler.cache.cache import Cache
from berth.scheduler.ports import Clock
from berth.scheduler.queue.queue import Part, Queue, QueuedPod

LINE = 1000
LINES_AT_ONCE = 50
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_IN_BYTES = ("memory", "ephemeral-storage")
_TITLES = {part: part.value.replace("_", " ").capitalize() for part in Part}

_log = logging.getLogger(__name__)


async def write(lines: Iterable[str], clock: Clock) -> None:
    """Write the lines to the log, a few at a time: decisions are made in between."""
    for number, line in enumerate(lines):
        if number % LINES_AT_ONCE == 0:
            await clock.sleep(0)
        _log.info("%s", line)


def cache_lines(cache: Cache) -> Iterator[str]:
    """Every node with its allocatable and requested resources and its pods; assumed, nominated and invalid objects."""
    table = cache.state.table
    for name in sorted(table.names()):
        yield from _node_lines(cache, table, name)
    for uid in list(cache.assumed()):
        held = cache.assumed().get(uid)
        if held is not None:
            state = (
                "acknowledged by the API server, not shown by the watch yet"
                if held.acknowledged
                else "not acknowledged by the API server yet"
            )
            yield f"Assumed: {_pod(held.pod)} on {held.node_name}, {state}"
    for name in sorted(cache.state.nominated):
        for pod in list(cache.state.nominated.get(name, {}).values()):
            yield f"Nominated: {_pod(pod)} to {name}"
    for kind, key in sorted(cache.invalid):
        yield f"Invalid, left out of decisions: {kind} {key}"


def queue_lines(queue: Queue, cache: Cache, serves: Callable[[str], bool], now: Callable[[], float]) -> Iterator[str]:
    """Every pod of the queue with the reason why it waits; and pending pods of ours that the queue lacks."""
    counts = ", ".join(f"{count} {part}" for part, count in queue.statistics().items())
    yield f"Queue: {counts}" + ("" if queue.is_open else "; closed, nothing is decided")
    for item in queue.items():
        if item.part is not None:  # else it has left the queue meanwhile
            yield f"{_TITLES[item.part]}: {_queued(item)}: {_why(item, now())}"
    lost = [
        _pod(pod)
        for uid, pod in cache.pending.items()
        if queue.part_of(uid) is None and not pod.deleting and serves(pod.scheduler_name)
    ]
    yield from _wrapped("Pending pods that are missing from the queue", lost)


# --- nodes -----------------------------------------------------------------------------------------------------------


def _node_lines(cache: Cache, table: NodeTable, name: str) -> Iterator[str]:
    node, row = table.node(name), table.row(name)
    pods, assumed = list(table.pods_on(name).values()), cache.assumed()
    if not pods and node is None:
        return  # the node was removed meanwhile
    if node is None or row is None:
        yield f"Node {name}: is not known; bound to it: {count(len(pods), 'pod')}"
    else:
        yield from _wrapped(f"Node {name}", (*_amounts(table, node, row, pods), *_marks(node)))
    yield from _wrapped(f"Node {name} runs", (_pod(pod) + " (assumed)" * (pod.uid in assumed) for pod in pods))


def _amounts(table: NodeTable, node: Node, row: int, pods: Iterable[Pod]) -> Iterator[str]:
    """The resources that the node has or its pods use; usually far fewer than all resources of all nodes."""
    for name in dict.fromkeys((*FIRST_RESOURCES, *node.allocatable, *(name for pod in pods for name in pod.usage))):
        used, there = table.used_of(name, row), node.allocatable.get(name, 0)
        if name and (used or there):
            yield f"{name} {_amount(name, used)} of {_amount(name, there)}"


def _marks(node: Node) -> Iterator[str]:
    if node.unschedulable:
        yield "cordoned"
    for taint in node.taints:
        yield f"taint {taint.key}={taint.value}:{taint.effect}"


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount}m"
    if resource not in _IN_BYTES:
        return str(amount)
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY[power]}"


# --- pods ------------------------------------------------------------------------------------------------------------


def _pod(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name} [{pod.uid}]"


def _queued(item: QueuedPod) -> str:
    pod = item.pod
    nominated = f", nominated to {pod.nominated_node_name}" if pod.nominated_node_name else ""
    return f"{_pod(pod)} of {pod.scheduler_name}, priority {pod.priority}, attempts {item.attempts}{nominated}"


def _why(item: QueuedPod, now_seconds: float) -> str:
    if item.part is Part.ACTIVE:
        return "it waits for its turn"
    if item.part is Part.GATED:
        return f"it is gated by {_few(item.pod.gates)}"
    if item.part is Part.HELD:
        return "it waits for its turn to ask an extender"
    if item.part is Part.BACKOFF:
        cause = "the last attempt failed" if item.failed else "an event may help it"
        return f"{cause}, its backoff ends in {max(0.0, item.ready - now_seconds):.1f} s"
    if item.part is Part.UNSCHEDULABLE:
        flush = max(0.0, item.since + item.backoff.flush_seconds - now_seconds)
        by = f" by {names}" if (names := _few(plugin.name for plugin in item.plugins)) else ""
        events = _few(sorted(item.retry_events)) or "nothing else"
        return f"no node fits{by}, tried again in {flush:.0f} s or after {events}"
    return "it is being tried"


def _few(names: Iterable[str]) -> str:
    return next(_wrapped("", names), "").removeprefix(": ")


def _wrapped(title: str, parts: Iterable[str]) -> Iterator[str]:
    """`title: part, part, ...`, in as many lines as needed; no line if there are no parts."""
    line = ""
    for part in parts:
        if line and len(title) + len(line) + len(part) > LINE:
            yield f"{title}: {line}"
            line = ""
        line += f", {part}" if line else part
    if line:
        yield f"{title}: {line}"
