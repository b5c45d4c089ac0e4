"""An imported configuration runs the filters and scores, with the weights, that the real kube-scheduler runs of it.

`kube-scheduler --write-config-to FILE` completes its configuration, makes a framework of every profile, writes the
configuration down and exits: no API server is asked. The log says what each framework runs, expanded; the written file
says it with the defaults merged in, and must import as the same policies.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from berth.cli import main
from berth.policy import load_policy
from berth.policy.extenders import leave_to_extenders
from cluster.server import write_kubeconfig
from control_plane.programs import find_programs
from policy.builders import make_configuration, make_profile, plugin_set

pytestmark = pytest.mark.cluster

SECONDS = 60
RUNS = "the scheduler starts to work with those plugins"
MOST = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}}


def on(*names: str, **weights: int) -> dict[str, Any]:
    return plugin_set({**dict.fromkeys(names), **weights})


def off(*names: str) -> dict[str, Any]:
    return plugin_set(disabled=names)


def both(disabled: tuple[str, ...], *names: str, **weights: int) -> dict[str, Any]:
    return plugin_set({**dict.fromkeys(names), **weights}, disabled)


# What every profile needs besides its filters and scores, where multiPoint is emptied.
NEEDED = ("PrioritySort", "DefaultBinder")

# One list of profiles a configuration.
CONFIGURATIONS: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "one profile without a name": [make_profile(None)],
    "two profiles that are the default": [make_profile("a"), make_profile("b")],
    "a score disabled": [make_profile(score=off("ImageLocality"))],
    "several scores disabled": [make_profile(score=off("NodeResourcesFit", "PodTopologySpread", "TaintToleration"))],
    "every score disabled": [make_profile(score=off("*"), preScore=off("*"))],
    "every score disabled but one": [make_profile(preScore=off("*"), score=both(("*",), ImageLocality=5))],
    "a weight at score": [make_profile(score=on(NodeAffinity=7))],
    "a weight of 0 at score": [make_profile(score=on(NodeAffinity=0, TaintToleration=0, InterPodAffinity=4))],
    "no weight at score": [make_profile(score=on("PodTopologySpread", "TaintToleration"))],
    "a score disabled and enabled again": [make_profile(score=both(("NodeAffinity",), NodeAffinity=9))],
    "a weight at multiPoint": [make_profile(multiPoint=on(NodeAffinity=7))],
    "a weight of 0 at multiPoint": [make_profile(multiPoint=on(TaintToleration=0, PodTopologySpread=0))],
    "no weight at multiPoint": [make_profile(multiPoint=on("InterPodAffinity", "NodeResourcesFit"))],
    "score before multiPoint": [make_profile(multiPoint=on(NodeAffinity=7), score=on(NodeAffinity=3))],
    "score of 0 before multiPoint": [make_profile(multiPoint=on(TaintToleration=7), score=on(TaintToleration=0))],
    "a plugin off everywhere": [make_profile(multiPoint=off("InterPodAffinity"))],
    "a plugin off everywhere and on at score": [
        make_profile(multiPoint=off("TaintToleration"), score=on(TaintToleration=8))
    ],
    "a plugin off and on again at multiPoint": [
        make_profile(multiPoint=both(("NodeResourcesFit",), NodeResourcesFit=6))
    ],
    "multiPoint emptied": [make_profile(multiPoint=both(("*",), *NEEDED))],
    "multiPoint with a few": [
        make_profile(multiPoint=both(("*",), *NEEDED, "NodeName", NodeResourcesFit=0, ImageLocality=2))
    ],
    "multiPoint emptied and points filled": [
        make_profile(
            multiPoint=both(("*",), *NEEDED),
            preFilter=on("NodeResourcesFit", "NodePorts"),
            filter=on("NodeResourcesFit", "NodePorts", "NodeName"),
            preScore=on("NodeResourcesBalancedAllocation"),
            score=on(NodeResourcesBalancedAllocation=2, ImageLocality=0),
        )
    ],
    "a filter disabled": [make_profile(filter=off("NodePorts"), preFilter=off("NodePorts"))],
    "every filter disabled": [make_profile(filter=off("*"))],
    "every filter disabled but some, in an order of their own": [
        make_profile(filter=both(("*",), "NodeResourcesFit", "NodeName", "TaintToleration"))
    ],
    "filters put first": [make_profile(filter=on("VolumeZone", "NodeName"))],
    "filters in another order at multiPoint": [
        make_profile(multiPoint=both(("NodeName", "TaintToleration"), "TaintToleration", "NodeName"))
    ],
    "a filter off and its score on": [make_profile(filter=off("TaintToleration"), score=on(TaintToleration=2))],
    "preemption off": [make_profile(postFilter=off("*"))],
    "preemption with limits": [make_profile(args={"DefaultPreemption": {"minCandidateNodesAbsolute": 5}})],
    "a timeout for volumes": [make_profile(args={"VolumeBinding": {"bindTimeoutSeconds": 60}})],
    "a share of the nodes": [make_profile("a") | {"percentageOfNodesToScore": 30}, make_profile("b")],
    "everything off but for one plugin, of weight 0": [
        make_profile(multiPoint=both(("*",), *NEEDED), score=both(("*",), ImageLocality=0))
    ],
    "every point emptied by name and by star": [
        make_profile(
            multiPoint=off("NodeAffinity", "VolumeZone"),
            filter=both(("*",), "NodeName", "NodeAffinity"),
            preFilter=on("NodeAffinity"),
            preScore=both(("*",), "NodeAffinity"),
            score=both(("*",), NodeAffinity=0),
        )
    ],
    "three profiles: a star each, at another place": [
        make_profile("filters", filter=both(("*",), "NodeUnschedulable")),
        make_profile("scores", score=both(("*",), TaintToleration=0), preScore=both(("*",), "TaintToleration")),
        make_profile("multi", multiPoint=both(("*",), *NEEDED, "TaintToleration", NodeResourcesFit=0)),
    ],
    "arguments": [
        make_profile(
            args={"NodeResourcesFit": MOST, "InterPodAffinity": {"hardPodAffinityWeight": 30}},
            score=on(NodeResourcesFit=20),
        )
    ],
    "arguments of a plugin that is off": [
        make_profile(args={"NodeResourcesFit": MOST}, multiPoint=off("NodeResourcesFit"))
    ],
    "the largest weight": [make_profile(score=both(("*",), ImageLocality=2**31 - 1))],
    "four profiles, each in another way": [
        make_profile("spread"),
        make_profile("pack", args={"NodeResourcesFit": MOST}, multiPoint=off("NodeResourcesBalancedAllocation")),
        make_profile("plain", score=off("*"), preScore=off("*")),
        make_profile("mixed", multiPoint=on(ImageLocality=0), score=both(("VolumeBinding",), NodeAffinity=0)),
    ],
    "two profiles, points against multiPoint": [
        make_profile("points", score=both(("*",), NodeAffinity=3, ImageLocality=0), filter=off("VolumeZone")),
        make_profile("multi", multiPoint=both(("*",), *NEEDED, "NodeAffinity", ImageLocality=0)),
    ],
}


# Beside the profiles: fields of the configuration, and what the policy of the only profile then says.
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "backoff": (
        {"podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 30},
        {"backoff": {"initialSeconds": 2, "maxSeconds": 30}},
    ),
    "a share of the nodes": ({"percentageOfNodesToScore": 40}, {"percentageOfNodesToScore": 40}),
    "an extender with everything": (
        {
            "extenders": [
                {
                    "urlPrefix": "https://x",
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "preemptVerb": "preempt",
                    "bindVerb": "bind",
                    "weight": 3,
                    "enableHTTPS": True,
                    "httpTimeout": "1m30s",
                    "nodeCacheCapable": True,
                    "managedResources": [{"name": "example.com/fpga"}],
                    "ignorable": True,
                }
            ]
        },
        {
            "extenders": [
                {
                    "urlPrefix": "https://x",
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "preemptVerb": "preempt",
                    "bindVerb": "bind",
                    "nodeCacheCapable": True,
                    "ignorable": True,
                    "managedResources": [{"name": "example.com/fpga"}],
                    "weight": 3,
                    "timeoutSeconds": 90,
                    "tls": {"insecure": True},
                }
            ]
        },
    ),
    "an extender with little": (
        {"extenders": [{"urlPrefix": "http://x", "filterVerb": "filter"}]},
        {"extenders": [{"urlPrefix": "http://x", "filterVerb": "filter"}]},
    ),
}


class Runs(NamedTuple):
    """What one framework runs."""

    filters: list[str]
    weights: dict[str, int]


def ask_kube_scheduler(folder: Path, profiles: list[dict[str, Any]], **fields: Any) -> tuple[list[Runs], Path]:
    """What the frameworks of the profiles run, and the completed configuration."""
    program = find_programs().kube_scheduler
    if program is None:
        pytest.skip("the folder of KUBEBUILDER_ASSETS has no kube-scheduler to compare with")
    given, written = folder / "given.json", folder / "written.yaml"
    connection = {"kubeconfig": str(write_kubeconfig(folder, "http://127.0.0.1:1"))}
    given.write_text(json.dumps(make_configuration(*profiles, clientConnection=connection, **fields)))
    flags = ["--secure-port=0", "--leader-elect=false", "--logging-format=json", "--v=2"]
    command = [str(program), f"--config={given}", f"--write-config-to={written}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    return [_runs(line["Plugins"]) for line in lines if line["msg"] == RUNS], written


def _runs(plugins: dict[str, Any]) -> Runs:
    filters, scores = (plugins[point]["Enabled"] or [] for point in ("Filter", "Score"))
    return Runs([item["Name"] for item in filters], {item["Name"]: item["Weight"] for item in scores})


def import_file(path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(("policy", "import", str(path))) == 0, capsys.readouterr().err
    return list(yaml.safe_load_all(capsys.readouterr().out))


def runs_of(manifest: dict[str, Any]) -> Runs:
    policy = load_policy(manifest).policy
    filters = [entry.name for entry in policy.predicates if not entry.pre_filter_only]
    return Runs(filters, {entry.name: entry.weight for entry in policy.priorities})


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_policies_run_what_kube_scheduler_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, completed = ask_kube_scheduler(tmp_path, CONFIGURATIONS[name])
    imported = import_file(tmp_path / "given.json", capsys)
    assert len(expected) == max(1, len(CONFIGURATIONS[name]))
    assert [runs_of(manifest) for manifest in imported] == expected
    assert import_file(completed, capsys) == imported


@pytest.mark.parametrize("name", FIELDS)
def test_fields_beside_the_profiles_mean_the_same_when_kube_scheduler_has_completed_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, expected = FIELDS[name]
    _, completed = ask_kube_scheduler(tmp_path, [make_profile("a")], **given)
    imported = import_file(tmp_path / "given.json", capsys)
    assert [manifest["spec"] for manifest in imported] == [{"schedulerName": "a", **expected}]
    assert import_file(completed, capsys) == imported
    load_policy(imported[0])


def test_a_resource_that_is_left_to_an_extender_is_ignored_by_the_same_plugin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = [{"name": "example.com/fpga", "ignoredByScheduler": True}, {"name": "example.com/gpu"}]
    extender = {"urlPrefix": "http://x", "filterVerb": "filter", "managedResources": resources}
    profile = make_profile("a", args={"NodeResourcesFit": {"ignoredResources": ["example.com/other"]}})
    _, completed = ask_kube_scheduler(tmp_path, [profile], extenders=[extender])
    for path in (tmp_path / "given.json", completed):
        [manifest] = import_file(path, capsys)
        policy = load_policy(manifest).policy
        predicates = {entry.name: entry for entry in leave_to_extenders(policy.predicates, policy.extenders)}
        assert predicates["NodeResourcesFit"].args == {"ignoredResources": ["example.com/fpga"]}


@pytest.mark.parametrize(
    "extender",
    [
        {"urlPrefix": "http://x", "prioritizeVerb": "prioritize"},
        {"urlPrefix": "http://x", "prioritizeVerb": "prioritize", "weight": 0},
        {"urlPrefix": "http://x", "filterVerb": "filter", "managedResources": [{"name": "cpu"}]},
    ],
    ids=str,
)
def test_an_extender_that_kube_scheduler_does_not_start_with_is_not_imported(
    extender: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="extenders"):
        ask_kube_scheduler(tmp_path, [make_profile("a")], extenders=[extender])
    assert main(("policy", "import", str(tmp_path / "given.json"))) == 1
    assert "extenders[0]" in capsys.readouterr().err
