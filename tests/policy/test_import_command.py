"""`berth policy import`: from what kube-scheduler is configured with to policies on standard output."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from berth.cli import main
from berth.policy import import_configuration, load_policy
from berth.policy.importing.manifest import WIDTH, write_manifest, write_source
from berth.policy.importing.sources import import_text, settle
from berth.policy.importing.translating import Manifest
from berth.sim.resources import CONFIG_MAPS
from control_plane.embedded import EmbeddedPlane
from policy.builders import make_configuration, make_policy, make_profile, plugin_set
from policy.test_vectors import read_vectors

Captured = pytest.CaptureFixture[str]

OLD_POLICY: dict[str, Any] = {
    "kind": "Policy",
    "apiVersion": "v1",
    "predicates": [{"name": "PodFitsResources"}, {"name": "PodToleratesNodeTaints"}],
    "priorities": [{"name": "MostRequestedPriority", "weight": 2}],
}


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("KUBECONFIG", "BERTH_KUBECONFIG", "BERTH_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")


def exit_code(*arguments: str) -> int:
    try:
        return main(("policy", "import", *arguments))
    except SystemExit as end:
        return int(end.code or 0)


def write(folder: Path, document: object, name: str = "scheduler.yaml") -> str:
    path = folder / name
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


def make_config_map(data: object, name: str = "scheduler") -> dict[str, Any]:
    metadata = {"namespace": "kube-system", "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def policies(capsys: Captured) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(capsys.readouterr().out))


# --- what is written


def test_every_configuration_of_the_vectors_reads_back_as_the_same_policy() -> None:
    texts = {json.dumps(vector["config"]) for vector in read_vectors()}
    compared = 0
    for text in sorted(texts):
        direct = import_configuration(json.loads(text))
        [source] = settle(import_text(text, "vector"))
        assert source.imported.errors == direct.errors, text
        if direct.errors:
            continue
        written = list(yaml.safe_load_all(write_source(source)))
        assert written == direct.manifests, text
        assert [load_policy(item).policy for item in written] == [load_policy(item).policy for item in direct.manifests]
        compared += 1
    assert compared > 300


def test_what_is_written_passes_lint(tmp_path: Path, capsys: Captured) -> None:
    profiles = [make_profile("a", score=plugin_set(disabled=["*"], enabled={"ImageLocality": 0})), make_profile("b")]
    sources = [write(tmp_path, make_configuration(*profiles)), write(tmp_path, OLD_POLICY, "policy.yaml")]
    for output in ("yaml", "json"):
        assert exit_code(*sources, "-o", output) == 0
        written = write(tmp_path, capsys.readouterr().out, "written")
        assert main(("policy", "lint", written)) == 0
        *lines, warning = capsys.readouterr().out.splitlines()
        assert lines == [f"{written}: {name}: ok" for name in ("a", "b", "default-scheduler")]
        assert "spec.schedulerName: warning: refused under default settings" in warning


def test_each_profile_is_a_document_with_its_own_comments(tmp_path: Path, capsys: Captured) -> None:
    first = make_profile("first", preEnqueue=plugin_set(disabled=["*"]))
    second = make_profile(
        "second", preScore=plugin_set(disabled=["NodeAffinity"]), score=plugin_set({"NodeAffinity": 9})
    )
    path = write(tmp_path, make_configuration(first, second, parallelism=32))
    assert exit_code(path) == 0
    one, two = capsys.readouterr().out.split("---\n")
    assert one.startswith(f"# From {path}, profiles[0]\n# parallelism: concerns the kube-scheduler process")
    assert "# profiles[0].plugins.preEnqueue.disabled[0]: switching SchedulingGates off" in one
    assert "profiles[1]" not in one
    assert two.startswith(f"# From {path}, profiles[1]\napiVersion")
    assert "  # profiles[1].plugins.preScore.disabled[0]: switching NodeAffinity off" in two
    assert two.index("preScore") < two.index("  priorities:\n  - {name: NodeAffinity, weight: 9}\n")
    assert max(map(len, (one + two).splitlines())) <= WIDTH


def test_what_an_old_policy_leaves_open_is_said_above_the_list(tmp_path: Path, capsys: Captured) -> None:
    body = {**OLD_POLICY, "predicates": [{"name": "PodFitsResources"}], "extenders": [{"urlPrefix": "http://x"}]}
    assert exit_code(write(tmp_path, body)) == 0
    head, _, lists = capsys.readouterr().out.partition("apiVersion")
    assert "# extenders[0]: is left out" in head
    comment, _, _ = lists.partition("  predicates:\n  - {name: PodFitsResources}\n")
    assert "  # predicates: kube-scheduler ran CheckNodeUnschedulable and PodToleratesNodeTaints" in comment


def test_a_policy_for_the_pods_of_kube_scheduler_says_so(tmp_path: Path, capsys: Captured) -> None:
    assert exit_code(write(tmp_path, make_configuration(make_profile(), make_profile("other")))) == 0
    shared, other = capsys.readouterr().out.split("---\n")
    assert "  # Pods that name no scheduler have this name" in shared
    assert "# Pods" not in other


def test_json_has_the_policies_in_a_list_and_the_warnings_on_standard_error(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, make_configuration(make_profile("a"), make_profile("b"), parallelism=32))
    assert exit_code("-o", "json", path) == 0
    out, err = capsys.readouterr()
    written = json.loads(out)
    assert (written["apiVersion"], written["kind"]) == ("v1", "List")
    assert [item["spec"] for item in written["items"]] == [{"schedulerName": "a"}, {"schedulerName": "b"}]
    assert err.startswith(f"{path}: parallelism: concerns the kube-scheduler process, not its decisions")
    assert err.count("\n") == 1


@given(
    words=st.lists(
        st.text() | st.sampled_from(["y", "n", "1e3", "0o7", "~", "null", "- a", "a: b", "# c", "x" * 300, "a b " * 90])
    ),
    comment=st.text(),
)
def test_any_text_reads_back_as_it_was(words: list[str], comment: str) -> None:
    args = {"labels": words, "deep": {word: [word] for word in words}}
    manifest: Manifest = make_policy(predicates=[{"name": "x", "args": args}], predicateOrder=words)
    written = write_manifest(manifest, {"": [comment], "predicates": [comment]})
    assert yaml.safe_load(written) == manifest


@pytest.mark.parametrize("word", ["y", "N", "1e3", "0x_1", "1:30", "null", "on", "~", "2001-01-01", ".5", "", "1"])
def test_a_text_that_some_reader_takes_for_something_else_is_quoted(word: str) -> None:
    written = write_manifest(make_policy(schedulerName=word), {})
    assert f'schedulerName: "{word}"' in written or f"schedulerName: '{word}'" in written


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["*", "NodeAffinity"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "enabled", "args", "data", "profiles", "plugins"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "profiles",
    "predicates",
    "priorities",
    "extenders",
    "algorithmSource",
    "schedulerName",
    "data",
    "metadata",
    "items",
    "plugins",
    "pluginConfig",
]


@given(
    kind=st.sampled_from(["Policy", "KubeSchedulerConfiguration", "ConfigMap", "List"]) | JSON,
    version=st.sampled_from(["v1", "kubescheduler.config.k8s.io/v1", "kubescheduler.config.k8s.io/v1alpha1"]) | JSON,
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3),
)
def test_whatever_a_document_contains_is_refused_or_written_as_valid_policies(
    kind: object, version: object, fields: dict[str, object]
) -> None:
    for source in settle(import_text(yaml.safe_dump({"kind": kind, "apiVersion": version, **fields}), "x")):
        if not source.imported.errors:
            for manifest in yaml.safe_load_all(write_source(source)):
                load_policy(manifest)


# --- names


def test_a_policy_can_be_named_where_there_is_one(tmp_path: Path, capsys: Captured) -> None:
    assert exit_code("--name", "packing", write(tmp_path, make_configuration())) == 0
    [policy] = policies(capsys)
    assert (policy["metadata"]["name"], policy["spec"]["schedulerName"]) == ("packing", "default-scheduler")
    assert exit_code("--name", "x", write(tmp_path, make_configuration(make_profile("a"), make_profile("b")))) == 2
    assert "these are 2" in capsys.readouterr().err
    assert exit_code("--name", "Not A Name", write(tmp_path, make_configuration())) == 2
    assert '"Not A Name"' in capsys.readouterr().err


def test_policies_of_several_files_have_names_of_their_own(tmp_path: Path, capsys: Captured) -> None:
    paths = [write(tmp_path, OLD_POLICY, name) for name in ("one", "two")]
    assert exit_code(*paths) == 0
    out = capsys.readouterr().out
    assert [item["metadata"]["name"] for item in yaml.safe_load_all(out)] == [
        "default-scheduler",
        "default-scheduler-2",
    ]
    assert out.count('# schedulerName: "default-scheduler" has a policy already') == 1


# --- providers


def test_the_default_provider_is_the_default_profile(capsys: Captured) -> None:
    assert exit_code("--provider", "DefaultProvider") == 0
    assert [item["spec"] for item in policies(capsys)] == [{"schedulerName": "default-scheduler"}]


def test_the_provider_for_autoscalers_fills_nodes(capsys: Captured) -> None:
    assert exit_code("--provider", "ClusterAutoscalerProvider", "--name", "packing") == 0
    [manifest] = policies(capsys)
    policy, default = load_policy(manifest).policy, load_policy(make_policy()).policy
    assert [entry.name for entry in policy.predicates] == [entry.name for entry in default.predicates]
    scores = [(entry.name, entry.weight) for entry in policy.priorities]
    assert scores == [(entry.name, entry.weight) for entry in default.priorities]
    [fit] = [entry for entry in policy.priorities if entry.name == "NodeResourcesFit"]
    assert fit.args["scoringStrategy"]["type"] == "MostAllocated"  # type: ignore[index]


def test_a_provider_that_there_was_not_is_2() -> None:
    assert exit_code("--provider", "Other") == 2


def make_oldest(source: object, **fields: object) -> dict[str, object]:
    version = {"apiVersion": "kubescheduler.config.k8s.io/v1alpha1", "kind": "KubeSchedulerConfiguration"}
    return {**version, "schedulerName": "mine", "algorithmSource": source, **fields}


def test_a_configuration_of_v1alpha1_may_name_a_provider(tmp_path: Path, capsys: Captured) -> None:
    path = write(tmp_path, make_oldest({"provider": "ClusterAutoscalerProvider"}, healthzBindAddress="x"))
    assert exit_code(path) == 0
    out = capsys.readouterr().out
    assert "# healthzBindAddress: of v1alpha1 is not carried over" in out
    assert yaml.safe_load(out)["spec"]["schedulerName"] == "mine"
    assert "MostAllocated" in out


def test_what_a_configuration_of_v1alpha1_says_beside_the_provider_is_carried_over(
    tmp_path: Path, capsys: Captured
) -> None:
    fields = {
        "disablePreemption": True,
        "percentageOfNodesToScore": 30,
        "bindTimeoutSeconds": 60,
        "podMaxBackoffSeconds": 20,
        "hardPodAffinitySymmetricWeight": 5,
    }
    assert exit_code(write(tmp_path, make_oldest({"provider": "DefaultProvider"}, **fields))) == 0
    out = capsys.readouterr().out
    assert out.count("#") == 1
    args = {"hardPodAffinityWeight": 5}
    assert yaml.safe_load(out)["spec"] == {
        "schedulerName": "mine",
        "predicates": [{"name": "InterPodAffinity", "args": args}],
        "priorities": [{"name": "InterPodAffinity", "args": args}],
        "preemption": {"enabled": False},
        "backoff": {"maxSeconds": 20},
        "bindTimeoutSeconds": 60,
        "percentageOfNodesToScore": 30,
    }


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (make_oldest({"provider": "Mine"}), 'algorithmSource.provider: "Mine" is not one of DefaultProvider'),
        (make_oldest({"policy": {"file": {"path": "/x"}}}), "algorithmSource: is not a provider: import the Policy"),
        (make_oldest(None), "algorithmSource: is not a provider"),
        (make_oldest({"provider": "DefaultProvider"}, disablePreemption=1), "disablePreemption: 1 is not true or"),
        (make_oldest({"provider": "DefaultProvider"}, plugins={}), "plugins: of v1alpha1 cannot be read: write it"),
    ],
)
def test_other_fields_of_v1alpha1_are_refused(tmp_path: Path, capsys: Captured, document: object, words: str) -> None:
    path = write(tmp_path, document)
    assert exit_code(path) == 1
    out, err = capsys.readouterr()
    assert (out, f"{path}: {words}" in err) == ("", True), err


# --- files


def test_json_that_is_indented_with_tabs_is_read(tmp_path: Path, capsys: Captured) -> None:
    assert exit_code(write(tmp_path, "\ufeff" + json.dumps(OLD_POLICY, indent="\t"), "policy.cfg")) == 0
    [policy] = policies(capsys)
    assert policy["spec"]["predicates"][0] == {"name": "PodFitsResources"}


def test_yaml_that_begins_with_a_brace_is_read(tmp_path: Path, capsys: Captured) -> None:
    text = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
    assert exit_code(write(tmp_path, text)) == 0
    assert len(policies(capsys)) == 1


def test_what_looks_like_a_date_is_text_as_for_kube_scheduler(tmp_path: Path, capsys: Captured) -> None:
    text = yaml.safe_dump(
        {**OLD_POLICY, "predicates": [{"name": "x", "argument": {"labelsPresence": {"labels": ["@"]}}}]}
    )
    assert exit_code(write(tmp_path, text.replace("'@'", "2001-01-01"))) == 0
    [policy] = policies(capsys)
    assert policy["spec"]["predicates"][0]["args"] == {"labels": ["2001-01-01"]}


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(make_configuration(make_profile("piped")))))
    assert exit_code("-") == 0
    assert policies(capsys)[0]["spec"] == {"schedulerName": "piped"}


def test_a_file_may_have_several_documents_and_lists(tmp_path: Path, capsys: Captured) -> None:
    inner = yaml.safe_dump(make_configuration(make_profile("c")))
    listed = {"apiVersion": "v1", "kind": "List", "items": [make_config_map({"config.yaml": inner})]}
    documents = [make_configuration(make_profile("a")), make_configuration(make_profile("b")), None, listed]
    assert exit_code(write(tmp_path, yaml.safe_dump_all(documents))) == 0
    assert [item["spec"]["schedulerName"] for item in policies(capsys)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no configuration in it"),
        ("a: [", "is not YAML"),
        ("- 1", "is not an object: a configuration begins with apiVersion and kind"),
        ("x: " + "9" * 5000, "cannot be read"),
        ("[" * 1500, "is nested too deeply"),
        ('{"a": 1, "a": 2}', '"a" is there twice'),
        ("a: &a [&b [*a]]", "line 1: an alias puts it into itself"),
        (
            "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]),
            "line 1: aliases",
        ),
        ("kind: Policy\nkind: Policy", 'line 2: "kind" is there twice'),
        ("kind: Deployment", 'kind: "Deployment" is not KubeSchedulerConfiguration or Policy'),
        ("kind: Policy", "apiVersion: null is not one of v1"),
        (
            "{kind: KubeSchedulerConfiguration, apiVersion: kubescheduler.config.k8s.io/v2}",
            'apiVersion: "kubescheduler.config.k8s.io/v2" is not one of',
        ),
        (json.dumps(make_configuration(spam=1)), "spam: unknown field"),
        (json.dumps(make_configuration({"a\nb": 1})), "profiles[0].a b: unknown field"),
        (
            json.dumps(make_configuration(make_profile(score=plugin_set({"NoSuch": 1})))),
            'profiles[0].plugins.score.enabled[0]: "NoSuch" is not a plugin',
        ),
        (json.dumps({**OLD_POLICY, "priorities": [{"name": "X", "weight": 1}]}), 'priorities[0].name: "X" is not one'),
    ],
)
def test_what_cannot_be_imported_is_one_line_that_names_the_file_and_the_field(
    tmp_path: Path, capsys: Captured, text: str, words: str
) -> None:
    path = write(tmp_path, text)
    assert exit_code(path) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: {words}")
    assert err.count("\n") == 1


def test_one_bad_file_keeps_all_policies_back(tmp_path: Path, capsys: Captured) -> None:
    assert exit_code(write(tmp_path, make_configuration()), "/nowhere.yaml") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("/nowhere.yaml: cannot be read: ")


def test_what_lint_would_refuse_is_not_written(tmp_path: Path, capsys: Captured) -> None:
    argument = {"labelPreference": {"label": "x", "presence": True}}
    many = [{"name": f"label-{index}", "weight": 1, "argument": argument} for index in range(80)]
    assert exit_code(write(tmp_path, {**OLD_POLICY, "priorities": many})) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "spec.priorities: has" in err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("x.yaml", "--provider", "DefaultProvider"),
        ("x.yaml", "--configmap", "a/b"),
        ("x.yaml", "--kubeconfig", "y"),
        ("--provider", "DefaultProvider", "--context", "y"),
        ("--provider", "DefaultProvider", "--key", "policy.cfg"),
        ("--configmap", "b"),
        ("--configmap", "a/../b"),
        ("--configmap", "A/b"),
        ("x.yaml", "-o", "toml"),
    ],
)
def test_a_wrong_question_is_2(capsys: Captured, arguments: tuple[str, ...]) -> None:
    assert exit_code(*arguments) == 2
    assert "policy import" in capsys.readouterr().err


def test_help_teaches(capsys: Captured) -> None:
    assert exit_code("--help") == 0
    out = capsys.readouterr().out
    assert "exit codes:" in out
    assert "--configmap kube-system/scheduler-policy" in out


# --- ConfigMaps


@pytest.mark.parametrize("key", ["policy.cfg", "config.yaml", "scheduler-config.yaml"])
@pytest.mark.parametrize("document", [OLD_POLICY, make_configuration()])
def test_a_config_map_is_unwrapped(tmp_path: Path, capsys: Captured, key: str, document: dict[str, Any]) -> None:
    assert exit_code(write(tmp_path, document)) == 0
    plain = policies(capsys)
    for text in (yaml.safe_dump(document), json.dumps(document, indent="\t")):
        path = write(tmp_path, make_config_map({key: text}), "map.yaml")
        assert exit_code(path) == 0
        out = capsys.readouterr().out
        assert list(yaml.safe_load_all(out)) == plain
        comment = " ".join(out.partition("apiVersion")[0].replace("#", " ").split())
        assert comment.startswith(f"From {path}: ConfigMap kube-system/scheduler: {key}")


def test_of_several_keys_one_is_asked_for(tmp_path: Path, capsys: Captured) -> None:
    data = {"b.yaml": yaml.safe_dump(make_configuration(make_profile("b"))), "a.cfg": json.dumps(OLD_POLICY)}
    path = write(tmp_path, make_config_map(data))
    assert exit_code(path) == 1
    assert "data: has several keys: a.cfg, b.yaml; choose one with --key" in capsys.readouterr().err
    assert exit_code(path, "--key", "b.yaml") == 0
    assert policies(capsys)[0]["spec"] == {"schedulerName": "b"}
    assert exit_code(path, "--key", "c") == 1
    assert 'data: has no key "c"; there is a.cfg, b.yaml' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "ConfigMap kube-system/scheduler: data: is empty"),
        ({}, "ConfigMap kube-system/scheduler: data: is empty"),
        ({"x": 1}, "ConfigMap kube-system/scheduler: data[x]: 1 is not text"),
        ({"x": ""}, "ConfigMap kube-system/scheduler: x: has no configuration in it"),
        ({"x": "a: ["}, "ConfigMap kube-system/scheduler: x: is not YAML"),
        ({"x": "kind: ConfigMap"}, 'ConfigMap kube-system/scheduler: x: kind: "ConfigMap" is not'),
        ({"x": "kind: Policy"}, "ConfigMap kube-system/scheduler: x: apiVersion: null is not one of v1"),
    ],
)
def test_what_is_wrong_in_a_config_map_is_named_with_its_key(
    tmp_path: Path, capsys: Captured, data: object, words: str
) -> None:
    path = write(tmp_path, make_config_map(data))
    assert exit_code(path) == 1
    assert capsys.readouterr().err.startswith(f"{path}: {words}")


# --- from a cluster


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    plane = EmbeddedPlane(tmp_path_factory.mktemp("plane"))
    texts = {"policy.cfg": json.dumps(OLD_POLICY), "more": "x"}
    plane.store.create(CONFIG_MAPS, make_config_map(texts), namespace="kube-system")
    with plane:
        yield plane


def test_a_config_map_is_read_from_the_cluster(plane: EmbeddedPlane, tmp_path: Path, capsys: Captured) -> None:
    assert exit_code(write(tmp_path, OLD_POLICY)) == 0
    plain = policies(capsys)
    cluster = ("--kubeconfig", str(plane.kubeconfig), "--configmap", "kube-system/scheduler")
    assert exit_code(*cluster, "--key", "policy.cfg") == 0
    out = capsys.readouterr().out
    assert list(yaml.safe_load_all(out)) == plain
    assert out.startswith("# From cluster: ConfigMap kube-system/scheduler: policy.cfg\n")
    assert exit_code(*cluster) == 1
    assert "has several keys: more, policy.cfg" in capsys.readouterr().err


def test_what_keeps_us_from_the_config_map_is_one_line_and_1(plane: EmbeddedPlane, capsys: Captured) -> None:
    there = ("--kubeconfig", str(plane.kubeconfig))
    for arguments, words in (
        ((*there, "--configmap", "kube-system/other"), '404 NotFound: configmaps "other" not found'),
        (("--kubeconfig", "/nowhere", "--configmap", "a/b"), "there is no kubeconfig at /nowhere"),
        ((*there, "--context", "staging", "--configmap", "a/b"), 'is "staging" the name of a context'),
    ):
        assert exit_code(*arguments) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), words in err) == ("", 1, True), err
        assert err.startswith("berth policy import: ")
