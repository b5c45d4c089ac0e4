"""Every component gets what it needs by its constructor: the composition root is the only place that wires."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import berth
from berth.cluster.fence import LeadershipFence, OpenFence
from berth.configuration import Options
from berth.runtime import Runtime, make_runtime
from berth.scheduler.error_log import ErrorLog
from cluster.server import write_kubeconfig
from support.reachable import reachable

SOURCE = Path(berth.__file__).parent
WIRED = [
    SOURCE / "handlers.py",
    *(path for part in ("cluster", "runtime", "scheduler") for path in SOURCE.glob(f"{part}/**/*.py")),
]


def runtime(folder: Path, *, standalone: bool) -> Runtime:
    kubeconfig = write_kubeconfig(folder, "http://x:1")
    return make_runtime(Options(kubeconfig=str(kubeconfig), https_address="", standalone=standalone))


def fences_of(part: object) -> list[object]:
    """Each fence that the part or anything in it asks."""
    outside = (asyncio.AbstractEventLoop,)
    return [each for each in reachable(part, outside) if isinstance(each, LeadershipFence | OpenFence)]


def targets(tree: ast.AST) -> Iterator[ast.expr]:
    """What is assigned to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield node.target


@pytest.mark.parametrize("path", WIRED, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_attribute_of_a_collaborator_is_set_from_outside(path: Path) -> None:
    """`self.other.attribute = ...` changes how `other` works after it was built."""
    found = [
        ast.unparse(target)
        for target in targets(ast.parse(path.read_text()))
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Attribute)
        if not ast.unparse(target).startswith("settings.")  # kopf's, which are made to be set
    ]
    assert found == []


@pytest.mark.parametrize("standalone", [True, False])
async def test_all_components_share_one_error_log(tmp_path: Path, standalone: bool) -> None:
    components = runtime(tmp_path, standalone=standalone).components
    seen, logs = set[int](), set[ErrorLog]()

    def look(part: object) -> None:
        if id(part) in seen or not type(part).__module__.startswith("berth."):
            return
        seen.add(id(part))
        if isinstance(part, ErrorLog):
            logs.add(part)
        for held in vars(part).values() if hasattr(part, "__dict__") else ():
            look(held)

    look(components)
    assert logs == {components.errors}
    assert len(seen) > 40


async def test_one_of_several_replicas_writes_behind_the_fence_of_its_leader(tmp_path: Path) -> None:
    components = runtime(tmp_path, standalone=False).components
    assert components.leader is not None
    (fence,) = fences_of(components)
    assert isinstance(fence, LeadershipFence)
    assert not fence.is_open
    for writer in (components.leader, components.cluster, components.statuses):
        assert fences_of(writer) == [fence]


async def test_the_only_replica_has_no_leader_and_a_fence_that_is_always_open(tmp_path: Path) -> None:
    components = runtime(tmp_path, standalone=True).components
    assert (components.leader, components.peering_intake) == (None, None)
    assert {type(fence) for fence in fences_of(components.cluster)} == {OpenFence}
    assert not any(isinstance(fence, LeadershipFence) for fence in fences_of(components))
