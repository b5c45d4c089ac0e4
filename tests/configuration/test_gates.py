"""Feature gates: each of them switches the thing, and what needs what is off is refused in words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth import runtime as berth_runtime
from berth.configuration.gates import DEFAULTS, GATES
from berth.runtime import Options, Runtime
from berth.scheduler.queue.queue import Part
from cluster.server import Answer, Server, listed, serving, until, write_kubeconfig
from engine.packages import Site
from engine.storage import make_claim, make_class, pod_with
from policy.builders import make_policy
from support.builders import make_node, make_pod

NOTED = """
    from pathlib import Path

    from berth.engine.per_node import PerNode

    Path({path!r}).touch()

    class Noted(PerNode):
        def fits(self, pod, node):
            return True
"""
EXPRESSION = {"name": "mine", "expression": "true", "message": "no"}


def make_runtime(tmp_path: Path, port: int = 1, **gates: bool) -> Runtime:
    path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{port}")
    switched = {**DEFAULTS, **gates}
    return berth_runtime.make_runtime(
        Options(kubeconfig=str(path), https_address="", standalone=True, feature_gates=switched)
    )


def problems(runtime: Runtime, manifest: dict[str, Any]) -> str:
    """What the status of the policy says against it; "" when it is taken."""
    runtime.on_event("SchedulingPolicy", "ADDED", manifest)
    runtime.components.policies.complete()
    status = runtime.components.policies.statuses()[manifest["metadata"]["name"]]
    (accepted,) = (one for one in status["conditions"] if one["type"] == "Accepted")  # type: ignore[attr-defined]
    return "" if accepted["status"] == "True" else str(accepted["message"])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(tmp_path)
    folder = Site(tmp_path)
    yield folder
    folder.forget()


def test_every_gate_has_a_test_here() -> None:
    """That of BulkIntake is in tests/cluster/test_bulk_kopf.py."""
    assert set(DEFAULTS) == {
        "BulkIntake",
        "Explanations",
        "Expressions",
        "NominatedNodeNameForExpectation",
        "Preemption",
        "PythonPlugins",
        "QueueingHints",
        "ShadowPolicies",
    }
    assert all(gate.stage in ("ALPHA", "BETA") for gate in GATES)


async def test_expressions(tmp_path: Path) -> None:
    manifest = make_policy(predicates=[EXPRESSION])
    assert problems(make_runtime(tmp_path), manifest) == ""
    assert problems(make_runtime(tmp_path, Expressions=False), manifest) == (
        "spec.predicates[0].expression: an expression is switched off by the feature gate Expressions: leave it out, "
        "or start Berth with --feature-gates Expressions=true"
    )


async def test_an_edit_that_needs_what_is_off_leaves_the_last_good_generation_in_force(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path, Expressions=False)
    assert problems(runtime, make_policy()) == ""
    scored = make_policy(generation=2, priorities=[{"name": "mine", "weight": 1, "expression": "1"}])
    assert "spec.priorities[0].expression" in problems(runtime, scored)
    assert runtime.statistics()["policies"]["generation"]["batch"] == 1


async def test_what_is_based_on_a_policy_that_is_refused_is_refused_too(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path, Expressions=False)
    assert problems(runtime, make_policy("common", schedulerName="c", predicates=[EXPRESSION]))
    assert "there is no valid SchedulingPolicy common" in problems(runtime, make_policy(base="common"))


async def test_explanations(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    for is_on in (True, False):
        options = Options(
            kubeconfig=str(path),
            https_address="",
            explain_address="127.0.0.1:0",
            standalone=True,
            feature_gates={**DEFAULTS, "Explanations": is_on},
        )
        components = berth_runtime.make_runtime(options).components
        assert (components.explaining is not None) is is_on
        assert components.loop.decision_memory.is_on is is_on


async def test_preemption(tmp_path: Path) -> None:
    asks, silent = make_policy(preemption={"enabled": True}), make_policy("other", schedulerName="other")
    on = make_runtime(tmp_path)
    assert problems(on, asks) == problems(on, silent) == ""
    assert all(active.preemption is not None for active in on.components.policies.in_force())
    assert "PodDisruptionBudget" in {resource.kind for resource in on.resources}

    off = make_runtime(tmp_path, Preemption=False)
    assert "spec.preemption.enabled: preemption is switched off by the feature gate Preemption" in problems(off, asks)
    assert problems(off, silent) == ""
    assert {active.policy.name for active in off.components.policies.in_force()} == {"(built-in)", "other"}
    assert all(active.preemption is None for active in off.components.policies.in_force())
    assert "PodDisruptionBudget" not in {resource.kind for resource in off.resources}


async def test_shadow_policies(tmp_path: Path) -> None:
    manifest = make_policy("canary", mode="Shadow")
    assert problems(make_runtime(tmp_path), manifest) == ""
    off = make_runtime(tmp_path, ShadowPolicies=False)
    assert "spec.mode: Shadow is switched off by the feature gate ShadowPolicies" in problems(off, manifest)
    assert off.statistics()["policies"]["generation"].keys() == {"(built-in)"}


async def test_python_plugins(tmp_path: Path, site: Site) -> None:
    noted = tmp_path / "imported"
    site.install(NOTED.format(path=str(noted)), "Noted")
    for entry in ({"name": "Noted"}, {"name": "n", "plugin": "Noted"}):
        manifest = make_policy(predicates=[entry])
        off = problems(make_runtime(tmp_path, PythonPlugins=False), manifest)
        assert "Noted, which an installed package brings, is switched off by the feature gate PythonPlugins" in off
        assert not noted.exists()
    own = make_policy(predicates=[{"name": "NodeName"}, {"name": "PodFitsResources"}])
    assert problems(make_runtime(tmp_path, PythonPlugins=False), own) == ""
    assert problems(make_runtime(tmp_path), manifest) == ""
    assert noted.exists()


@pytest.mark.parametrize("hints", [True, False])
async def test_queueing_hints(tmp_path: Path, hints: bool) -> None:
    """A node that comes and is too small wakes an unschedulable pod only where nobody asks whether it helps."""
    async with serving() as server:
        runtime = make_runtime(tmp_path, server.port, QueueingHints=hints)
        prepare(server)
        await runtime.start()
        runtime.on_event("Node", None, make_node("a"))
        await until(lambda: runtime.readiness().is_ready)
        runtime.on_event("Pod", "ADDED", make_pod("big", cpu=99))
        uid = make_pod("big")["metadata"]["uid"]
        await until(lambda: runtime.components.queue.part_of(uid) is Part.UNSCHEDULABLE)
        runtime.on_event("Node", "ADDED", make_node("b"))
        assert (runtime.components.queue.part_of(uid) is Part.UNSCHEDULABLE) is hints
        await runtime.stop()


@pytest.mark.parametrize("expects", [True, False])
async def test_nominated_node_names_for_expectation(tmp_path: Path, expects: bool) -> None:
    """A pod whose volume has to be made on its node says so, or does not."""
    pod, claim, kind = pod_with("data", name="big"), make_claim("data"), make_class()
    async with serving() as server:
        runtime = make_runtime(tmp_path, server.port, NominatedNodeNameForExpectation=expects)
        prepare(server)
        path = "/api/v1/namespaces/default/persistentvolumeclaims"
        server.answer("GET", "/api/v1/persistentvolumeclaims", listed("PersistentVolumeClaim", claim))
        server.answer("GET", "/apis/storage.k8s.io/v1/storageclasses", listed("StorageClass", kind))
        server.answer("PATCH", f"{path}/data", Answer(200, claim))
        await runtime.start()
        for each in (make_node("a"), claim, kind):
            runtime.on_event(each["kind"], None, each)
        await until(lambda: runtime.readiness().is_ready)
        runtime.on_event("Pod", "ADDED", pod)
        await until(lambda: bool(server.seen("PATCH", "persistentvolumeclaims")))
        if expects:
            await until(lambda: bool(server.seen("PATCH", "pods/big/status")))
        said = [request.body["status"] for request in server.seen("PATCH", "pods/big/status")]
        assert said == ([{"nominatedNodeName": "a"}] if expects else [])
        await runtime.stop()


def prepare(server: Server) -> None:
    server.answer("GET", "/api/v1/nodes", listed("Node", make_node("a")))
    server.answer("POST", "/apis/events.k8s.io/v1/namespaces/default/events", Answer(201))
    server.answer("PATCH", "/api/v1/namespaces/default/pods/big/status", Answer())


async def test_which_gates_are_on_is_counted(tmp_path: Path) -> None:
    features = make_runtime(tmp_path, Expressions=False).statistics()["features"]
    assert features["Expressions"] == ("BETA", False)
    assert features["ShadowPolicies"] == ("ALPHA", True)
