"""The log at level debug, of Berth as a process, in bad weather: no secret and nothing of a pod's spec is in it."""

import base64
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from berth.sim.faults import CutAfter, CutBefore, DropWatch, Expire, Fail, Faults, Rule
from berth.sim.resources import NODES, PODS, Resource
from berth.sim.server import SimServer
from control_plane.berth_process import BerthProcess
from control_plane.embedded import EmbeddedPlane
from control_plane.process import free_port
from policy import certificates
from policy.builders import make_policy
from support.builders import make_node, make_pod

CRDS = Path(__file__).parents[2] / "crds"
MARK = "SESAME"  # in everything that may not be seen
KEY = f"-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----\n"
LIMIT_SECONDS = 60.0
SAID = ("is bound to node", "finds no node", "is invalid", "is refused", "Starting the watch-stream")


def bad_weather() -> Faults:
    binding, pods = frozenset({"binding"}), frozenset({"Pod"})
    return Faults(
        [
            Rule(Fail(500), subresources=binding, every=4),
            Rule(Fail(409), subresources=binding, every=5),
            Rule(CutAfter(), subresources=binding, every=3),
            Rule(Fail(422), kinds=pods, subresources=frozenset({"status"}), every=3),
            Rule(CutBefore(), kinds=frozenset({"Event"}), every=3),
            Rule(Fail(503), verbs=frozenset({"list"}), every=7),
            Rule(DropWatch(0.5, 2.0)),
            Rule(Expire(2.0)),
        ],
        seed=3,
    )


def secretive(name: str, **fields: Any) -> dict[str, Any]:
    """A pod that has the mark wherever users put secrets."""
    body = make_pod(name, **fields)
    (container,) = body["spec"]["containers"]
    container |= {"env": [{"name": "PASSWORD", "value": MARK}], "command": ["sh", "-c", MARK], "args": [MARK]}
    copy = json.dumps({"spec": body["spec"]})
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": copy, "note": MARK}
    return body


def objects(policy_resource: Resource) -> list[tuple[Resource, dict[str, Any]]]:
    pods = [secretive(f"web-{number}") for number in range(20)]
    pods += [secretive(f"big-{number}", cpu=99) for number in range(3)]
    pods.append(secretive("odd", tolerations=[{"key": "a", "operator": MARK}]))
    tls = {"certificate": f"{MARK}\n{certificates.CERTIFICATE}", "key": f"{MARK}\n{certificates.KEY}"}
    away = {"urlPrefix": f"https://127.0.0.1:{free_port()}", "filterVerb": "filter", "ignorable": True, "tls": tls}
    wrong = away | {"tls": tls | {"key": KEY}}
    policies = [
        make_policy("extended", schedulerName="extended", extenders=[away]),
        make_policy("wrong", schedulerName="wrong", extenders=[wrong]),
        make_policy("failing", schedulerName="failing", predicates=[{"name": "e", "expression": "1 / 0 == 1"}]),
    ]
    for name in ("extended", "wrong", "failing"):
        pods.append(secretive(f"pod-{name}", scheduler=name))
    nodes = [make_node(f"n{number}", annotations={"note": MARK}) for number in range(3)]
    return [
        *((NODES, node) for node in nodes),
        *((policy_resource, policy) for policy in policies),
        *((PODS, pod) for pod in pods),
    ]


def test_neither_secrets_nor_specs_are_logged(tmp_path: Path) -> None:
    with EmbeddedPlane(tmp_path) as idle:  # for its folder, loop and store; the server is one that asks for a token
        idle.stop_api_server()
        faults = bad_weather()
        idle.server = SimServer(idle.store, port=free_port(), faults=faults, token=f"token-{MARK}")
        idle.start_api_server()
        idle.server.write_kubeconfig(idle.kubeconfig)
        assert MARK in idle.kubeconfig.read_text()
        idle.apply_crds(CRDS)

        async def create() -> None:
            policies = idle.store.find("berth.dev", "v1alpha1", "schedulingpolicies")
            assert policies is not None
            for resource, body in objects(policies):
                idle.store.create(resource, body, namespace="default" if resource.namespaced else "")

        idle.call(create())
        berth = BerthProcess(
            idle.kubeconfig,
            *("--log-level=debug", "--log-format=json", "--resync-seconds=1", "--extender-networks=127.0.0.0/8"),
            log=tmp_path / "log",
        )
        with berth:

            def bound() -> int:
                return sum(1 for pod in idle.store.list(PODS).items if pod["spec"].get("nodeName"))

            def wait_until(condition: Callable[[], bool]) -> None:
                berth.process.wait_ready(condition, LIMIT_SECONDS)

            wait_until(lambda: bound() >= 20)
            # Pods are bound side by side with all else that is to be said before the API server goes.
            wait_until(lambda: all(words in berth.process.log_text() for words in (*SAID, "extender https")))
            os.kill(berth.process.pid, signal.SIGUSR2)
            wait_until(lambda: "compared with the API server" in berth.process.log_text())
            idle.stop_api_server()
            wait_until(lambda: "The API server is away" in berth.process.log_text())
            idle.start_api_server()
            wait_until(lambda: "The API server is back" in berth.process.log_text())
        text = berth.process.log_text()
    leaks = [line for line in text.splitlines() if MARK in line or base64.b64encode(MARK.encode()).decode() in line]
    assert leaks == []
    for words in SAID:
        assert words in text, words
    lines = [json.loads(line) for line in text.splitlines()]
    bound_lines = [line for line in lines if "is bound to node" in line["message"]]
    assert all({"pod", "uid", "node", "policy", "kind"} <= line.keys() for line in bound_lines)
    assert {line["policy"] for line in lines if "is refused" in line["message"]} == {"wrong"}
    assert {line["policy"] for line in lines if "extender https" in line["message"]} == {"extended"}
