"""What the garbage collector looks at in a process that schedules, and what it leaves alone."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth import collector as module
from berth.collector import THRESHOLDS, Collector
from berth.configuration import Options
from berth.runtime import make_runtime
from cluster.server import Server, listed, until, write_kubeconfig
from support.builders import make_node


class Thing:
    """Something that can be in a cycle, and be watched."""

    other: "Thing"


def make_cycle() -> "weakref.ref[Thing]":
    """Of garbage; what is returned shows whether it was collected."""
    one, two = Thing(), Thing()
    one.other, two.other = two, one
    return weakref.ref(one)


def grow_old() -> None:
    """Collect as often as makes what lives old, as the collector itself would."""
    for generation in (0, 1):
        gc.collect(generation)


@pytest.fixture
def collector() -> Iterator[Collector]:
    gc.collect()
    made = Collector()
    made.start()
    gc.disable()  # nothing but what the test asks for
    yield made
    gc.enable()
    made.stop()
    gc.collect()


def test_what_is_read_is_frozen_once_the_first_lists_are_complete(collector: Collector) -> None:
    before = gc.get_freeze_count()
    kept = [Thing() for _ in range(1000)]
    collector.settle()
    assert gc.get_freeze_count() >= before + len(kept)
    assert gc.get_count()[2] == 0


def test_frozen_records_are_freed_when_nothing_refers_to_them(collector: Collector) -> None:
    kept = [Thing() for _ in range(1000)]
    seen = weakref.ref(kept[0])
    collector.settle()
    frozen = gc.get_freeze_count()
    kept.clear()
    assert seen() is None
    assert gc.get_freeze_count() <= frozen - 1000


def test_a_cycle_that_has_grown_old_is_collected_before_the_old_are_frozen(collector: Collector) -> None:
    one = Thing()
    one.other = one
    seen = weakref.ref(one)
    grow_old()
    del one
    assert seen() is not None
    collector.tend()
    assert seen() is None
    assert gc.get_count()[2] == 0


def test_many_old_objects_are_frozen_without_a_look_at_them(collector: Collector) -> None:
    one = Thing()
    one.other = one
    seen = weakref.ref(one)
    grow_old()
    del one
    for _ in range(module.OLD_AT_ONCE):
        gc.collect(1)
    collector.tend()
    assert seen() is not None
    assert gc.get_count()[2] == 0


def test_nothing_is_done_while_nothing_has_grown_old(collector: Collector) -> None:
    gc.freeze()
    seen = make_cycle()
    collector.tend()
    assert seen() is not None


def test_cycles_among_the_frozen_are_collected_when_much_more_is_frozen_than_before(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_FROZEN", 1)
    collector.look()
    cycles = [make_cycle() for _ in range(10)]
    collector.settle()
    collector.look()
    assert all(cycle() is not None for cycle in cycles)
    many = [Thing() for _ in range(gc.get_freeze_count() + 1000)]
    collector.settle()
    collector.look()
    assert all(cycle() is None for cycle in cycles)
    assert many


async def test_a_process_hands_its_collector_over_from_the_start_to_the_end(server: Server, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    usual = gc.get_threshold()
    options = Options(kubeconfig=str(path), https_address="", standalone=True)
    runtime = make_runtime(options, collector=Collector())
    await runtime.start()
    assert gc.get_threshold() == THRESHOLDS
    runtime.on_event("Node", None, make_node("a"))
    await until(lambda: runtime.readiness().is_ready)
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 1000
    await runtime.stop()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)


async def test_a_runtime_beside_others_leaves_the_collector_alone(server: Server, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}")
    usual = gc.get_threshold()
    runtime = make_runtime(Options(kubeconfig=str(path), https_address="", standalone=True))
    await runtime.start()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)
    await runtime.stop()
