"""Flags, variables and the file: which one counts, and what is said of those that make no sense."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from berth.cli import make_parser
from berth.cli.run import read_options
from berth.configuration import SETTINGS, BadConfiguration, Options, as_mapping, read
from berth.configuration.file import HEAD, render
from berth.configuration.gates import DEFAULTS
from berth.configuration.values import Listed

HEADER = "apiVersion: berth.dev/v1alpha1\nkind: BerthConfiguration\n"

# A value other than the default for every setting, as each of the three sources writes it.
OTHERS: dict[str, tuple[str, str, Any]] = {
    "kubeconfig": ("/k", "/k", "/k"),
    "context": ("c", "c", "c"),
    "standalone": ("", "on", True),
    "peering_name": ("other", "other", "other"),
    "peering_lifetime_seconds": ("20", "20", 20),
    "https_address": ("[::1]:1", "[::1]:1", "[::1]:1"),
    "http_address": ("127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1"),
    "tls_cert_file": ("/c", "/c", "/c"),
    "tls_private_key_file": ("/p", "/p", "/p"),
    "debug_endpoints": ("", "on", True),
    "explain_address": ("0.0.0.0:1", "0.0.0.0:1", "0.0.0.0:1"),
    "explain_service": ("berth-system/why", "berth-system/why", "berth-system/why"),
    "explain_tls_cert_file": ("/ec", "/ec", "/ec"),
    "explain_tls_private_key_file": ("/ep", "/ep", "/ep"),
    "webhook_address": ("0.0.0.0:1", "0.0.0.0:1", "0.0.0.0:1"),
    "webhook_service": ("berth-system/hook", "berth-system/hook", "berth-system/hook"),
    "webhook_tls_cert_file": ("/wc", "/wc", "/wc"),
    "webhook_tls_private_key_file": ("/wp", "/wp", "/wp"),
    "advertise_address": ("10.0.0.7", "10.0.0.7", "10.0.0.7"),
    "remembered_decisions": ("5", "5", 5),
    "seed": ("7", "7", 7),
    "resync_seconds": ("60", "60", 60.0),
    "built_in_policy": ("no", "off", False),
    "reserved_scheduler_names": ("a, b", "a,b", ("a", "b")),
    "protected_namespaces": ("-", "-", ()),
    "trusted_policies": ("default", "default", ("default",)),
    "extender_hosts": ("*.svc,10.0.0.1", "*.svc,10.0.0.1", ("*.svc", "10.0.0.1")),
    "extender_networks": ("127.0.0.0/8,::1/128", "127.0.0.0/8,::1/128", ("127.0.0.0/8", "::1/128")),
    "installation": ("berth-system/berth", "berth-system/berth", "berth-system/berth"),
    "log_level": ("debug", "debug", "debug"),
    "log_format": ("json", "json", "json"),
    "feature_gates": ("QueueingHints=false", "QueueingHints=false", {**DEFAULTS, "QueueingHints": False}),
}
ALL = Options(**{name: value for name, (_, _, value) in OTHERS.items()})


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "berth.yaml"
    path.write_text(text)
    return str(path)


def from_flags(*arguments: str, environment: dict[str, str] | None = None) -> Options:
    return read_options(make_parser("berth").parse_args(["run", *arguments]), environment or {})


def problems(tmp_path: Path, text: str) -> list[str]:
    path = written(tmp_path, text)
    with pytest.raises(BadConfiguration) as caught:
        read({}, config=path)
    assert all(problem.startswith(f"{path}: ") for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


def test_every_field_of_the_options_is_in_the_table_and_the_other_way_round() -> None:
    assert [setting.name for setting in SETTINGS if setting.name not in OTHERS] == []
    assert {setting.name for setting in SETTINGS} == {field.name for field in dataclasses.fields(Options)}
    for names in ([setting.flag for setting in SETTINGS], [setting.key for setting in SETTINGS]):
        assert len(set(names)) == len(SETTINGS)


def test_nothing_chosen_gives_the_defaults() -> None:
    assert read({}) == from_flags() == Options()


def test_each_setting_can_be_given_as_a_flag() -> None:
    arguments = []
    for setting in SETTINGS:
        flag, _, value = OTHERS[setting.name]
        if isinstance(value, bool):
            arguments.append(setting.flag if value else f"--no-{setting.flag.removeprefix('--')}")
        else:
            arguments += [setting.flag, flag]
    assert from_flags(*arguments) == ALL


def test_each_setting_can_be_given_as_a_variable() -> None:
    assert read({setting.variable: OTHERS[setting.name][1] for setting in SETTINGS}) == ALL


def test_each_setting_can_be_given_in_the_file_as_it_is_written_there(tmp_path: Path) -> None:
    path = written(tmp_path, render(ALL))
    assert read({"BERTH_CONFIG": path}) == ALL
    assert from_flags("--config", path) == ALL
    assert from_flags("--config", written(tmp_path, render(Options()))) == Options()


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_a_flag_wins_over_the_variable_that_over_the_file_that_over_the_default(tmp_path: Path, name: str) -> None:
    setting = next(setting for setting in SETTINGS if setting.name == name)
    pairs: dict[str, Any] = {"tls_cert_file": "/a", "tls_private_key_file": "/b"}
    prefix, is_pair, _ = name.partition("tls_")
    pairs |= {f"{prefix}{key}": value for key, value in pairs.items()} if is_pair else {}
    other = dataclasses.replace(Options(), explain_address="0.0.0.0:2", webhook_address="0.0.0.0:3", **pairs)
    path = written(tmp_path, render(dataclasses.replace(other, **{name: OTHERS[name][2]})))
    chosen = getattr(read({}, config=path), name)
    assert chosen == OTHERS[name][2] != setting.default
    back = {bool: "on" if setting.default else "off", dict: "QueueingHints=true"}
    text = back.get(type(setting.default), str(setting.kind.to_yaml(setting.default)) if setting.default else "9")
    if isinstance(setting.kind, Listed):
        text = setting.kind.to_text(setting.default)
    elif setting.default == "" and setting.kind.empty:
        text = ""
    elif name == "https_address":
        text = "0.0.0.0:10259"
    by_variable = getattr(read({setting.variable: text}, config=path), name)
    assert by_variable == (setting.kind.from_text(text) if name != "feature_gates" else DEFAULTS) != chosen
    flag = OTHERS[name][2] if isinstance(chosen, bool) else OTHERS[name][0]
    assert getattr(read({setting.variable: text}, {name: flag}, path), name) == chosen


def test_the_flag_that_names_the_file_wins_over_the_variable(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "seed: 3\n")
    assert from_flags("--config", path, environment={"BERTH_CONFIG": "/nowhere"}).seed == 3


def test_of_the_gates_each_one_is_looked_up_by_itself(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "featureGates: {Expressions: false, ShadowPolicies: false}\n")
    gates = read(
        {"BERTH_FEATURE_GATES": "ShadowPolicies=true,QueueingHints=false"},
        {"feature_gates": "QueueingHints=true"},
        path,
    ).feature_gates
    assert gates == {**DEFAULTS, "Expressions": False}


def test_an_empty_variable_is_none_but_for_addresses() -> None:
    empty = {setting.variable: "" for setting in SETTINGS}
    assert read(empty) == dataclasses.replace(Options(), https_address="", http_address="")


def test_as_a_mapping_the_options_read_back(tmp_path: Path) -> None:
    mapping = as_mapping(ALL)
    assert list(mapping) == [setting.key for setting in SETTINGS]
    assert (mapping["resyncSeconds"], mapping["tlsPrivateKeyFile"], mapping["builtInPolicy"]) == (60, "/p", False)
    text = HEADER + "".join(f"{key}: {value!r}\n" for key, value in mapping.items() if not isinstance(value, bool))
    assert (
        read({}, {"built_in_policy": False, "standalone": True, "debug_endpoints": True}, written(tmp_path, text))
        == ALL
    )


# --- what makes no sense ---------------------------------------------------------------------------------------------


def test_a_key_that_nobody_knows_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    assert problems(tmp_path, HEADER + "resyncSecond: 5\n") == [
        '"resyncSecond" is not a setting; did you mean resyncSeconds? `berth run --write-config-to -` shows every key'
    ]
    assert problems(tmp_path, HEADER + "zzz: 5\n") == [
        '"zzz" is not a setting; `berth run --write-config-to -` shows every key'
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("seed: x", 'seed: "x" is not a whole number'),
        ("seed: true", "seed: true is not a whole number"),
        ("seed: 1.5", "seed: 1.5 is not a whole number"),
        ("resyncSeconds: 0", "resyncSeconds: 0 is not from 1 to 86400"),
        ("resyncSeconds:", "resyncSeconds: is empty; leave the key out, or write 1 to 86400"),
        ("peeringLifetimeSeconds: 4", "peeringLifetimeSeconds: 4 is not from 5 to 60"),
        ("peeringLifetimeSeconds: 61", "peeringLifetimeSeconds: 61 is not from 5 to 60"),
        ("peeringName: No_Name", 'peeringName: "No_Name" is not the name of an object'),
        ('standalone: "on"', 'standalone: "on" is not true or false'),
        ("logLevel: loud", 'logLevel: "loud" is not one of debug, info, warning, error'),
        ("kubeconfig: 5", "kubeconfig: 5 is not a text"),
        ('context: ""', 'context: "" is not a text'),
        ("httpAddress: 0.0.0.0:1", 'httpAddress: "0.0.0.0:1" is not on the loopback interface'),
        ("httpsAddress: 1", "httpsAddress: 1 is not a text"),
        ("httpsAddress: 0.0.0.0", 'httpsAddress: "0.0.0.0" is not an address; write host:port'),
        ("tlsCertFile: /c", "tlsCertFile: goes with --tls-private-key-file (tlsPrivateKeyFile) only: give both"),
        (
            "explainAddress: 0.0.0.0:1\nexplainTlsCertFile: /c",
            "explainTlsCertFile: goes with --explain-tls-private-key-file (explainTlsPrivateKeyFile) only: give both",
        ),
        ("explainTlsCertFile: /c", "explainTlsCertFile: there is nothing to serve with it, as --explain-address is"),
        ("webhookTlsCertFile: /c", "webhookTlsCertFile: there is nothing to serve with it, as --webhook-address is"),
        ("webhookService: a/b/c", 'webhookService: "a/b/c" is not a Service: write namespace/name'),
        ("explainService: why", 'explainService: "why" is not a Service: write namespace/name'),
        ("advertiseAddress: localhost", 'advertiseAddress: "localhost" is not an IP address'),
        ("rememberedDecisions: -1", "rememberedDecisions: -1 is not from 0 to 100000"),
        ("reservedSchedulerNames: a", 'reservedSchedulerNames: "a" is not a list'),
        ("trustedPolicies: [No_Name]", 'trustedPolicies: "No_Name" is not the name of an object'),
        ("trustedPolicies: [1]", "trustedPolicies: 1 is not a text"),
        ("extenderHosts: ['http://a']", 'extenderHosts: "http://a" is not a host'),
        ("extenderNetworks: [10.0.0.1/8]", 'extenderNetworks: "10.0.0.1/8" is not a network such as 127.0.0.0/8'),
        ("installation: a b", 'installation: "a b" is not a name'),
        ("featureGates: [A]", "featureGates: a list is not a mapping of gates"),
        ("featureGates: {Expressions: maybe}", 'featureGates: Expressions: "maybe" is not true or false'),
        ("featureGates: {Expression: true}", 'featureGates: "Expression" is not a gate; did you mean Expressions?'),
        ("seed: 1\nseed: 2", 'line 4: "seed" is there twice'),
        ("kind: Pod", 'line 3: "kind" is there twice'),
        ("seed: [", "is not YAML: line 4"),
    ],
)
def test_what_makes_no_sense_in_the_file_is_named_with_its_key(tmp_path: Path, line: str, problem: str) -> None:
    said = problems(tmp_path, f"{HEADER}{line}\n")
    assert len(said) == 1
    assert said[0].startswith(problem)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not one document"),
        ("[]", "is not one document"),
        (HEADER + "---\n" + HEADER, "is not one document"),
        ("seed: 1\n", "apiVersion: is missing; write apiVersion: berth.dev/v1alpha1"),
        (HEADER.replace("v1alpha1", "v9"), 'apiVersion: "berth.dev/v9" is not known; write apiVersion: berth.dev/v1'),
        (HEADER.replace("BerthConfiguration", "Pod"), 'kind: "Pod" is not known; write kind: BerthConfiguration'),
    ],
)
def test_a_document_that_is_not_ours_is_refused(tmp_path: Path, text: str, words: str) -> None:
    assert words in problems(tmp_path, text)[0]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="/nowhere: cannot be read: No such file"):
        read({}, config="/nowhere")
    path = tmp_path / "latin"
    path.write_bytes(b"kind: \xff")
    with pytest.raises(BadConfiguration, match="is not UTF-8"):
        read({}, config=str(path))


def test_a_variable_that_nobody_knows_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadConfiguration) as caught:
        read({"BERTH_HTTPS_ADRESS": "", "BERTH_ZZZ": "5", "BERTH_RESYNC_SECONDS": "0", "BERTHS": "1", "HOME": "/"})
    assert caught.value.problems == [
        "BERTH_HTTPS_ADRESS: is not a setting; did you mean BERTH_HTTPS_ADDRESS? "
        "`berth run --write-config-to -` shows every variable",
        "BERTH_ZZZ: is not a setting; `berth run --write-config-to -` shows every variable",
        "BERTH_RESYNC_SECONDS: 0 is not from 1 to 86400",
    ]


@pytest.mark.parametrize("service", ["BERTH", "BERTH_METRICS", "BERTH_2_HTTPS_ADDRESS"])
def test_what_kubernetes_says_of_services_with_our_name_is_no_setting(service: str) -> None:
    port = f"{service}_PORT_10259_TCP"
    environment = {
        f"{service}_SERVICE_HOST": "10.0.0.7",
        f"{service}_SERVICE_PORT": "10259",
        f"{service}_SERVICE_PORT_HTTPS": "10259",
        f"{service}_PORT": "tcp://10.0.0.7:10259",
        port: "tcp://10.0.0.7:10259",
        f"{port}_PROTO": "tcp",
        f"{port}_PORT": "10259",
        f"{port}_ADDR": "10.0.0.7",
    }
    assert read(environment) == Options()


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("BERTH_SEED", "seven", 'BERTH_SEED: "seven" is not a whole number'),
        ("BERTH_RESYNC_SECONDS", "-5", "BERTH_RESYNC_SECONDS: -5 is not from 1 to 86400"),
        ("BERTH_BUILT_IN_POLICY", "no", 'BERTH_BUILT_IN_POLICY: "no" is not on or off'),
        ("BERTH_FEATURE_GATES", "Expressions", 'BERTH_FEATURE_GATES: "Expressions" is not NAME=true or NAME=false'),
        ("BERTH_FEATURE_GATES", "X=true", "known are BulkIntake, Explanations, Expressions, NominatedNodeName"),
        ("BERTH_FEATURE_GATES", "Expressions=true,Expressions=false", '"Expressions" is there twice'),
        ("BERTH_CONTEXT", "a\nb", "cannot be printed"),
    ],
)
def test_what_makes_no_sense_in_a_variable_is_named_with_it(variable: str, value: str, words: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        read({variable: value})
    assert words in str(caught.value)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "seeed: 1\nlogLevel: loud\n")
    with pytest.raises(BadConfiguration) as caught:
        read({"BERTH_SEED": "x"}, {"resync_seconds": "", "log_format": "xml"}, path)
    assert [problem.rpartition(path)[2].split(":")[0] for problem in caught.value.problems] == [
        *("", "", "BERTH_SEED", "--resync-seconds", "--log-format")
    ]


@pytest.mark.parametrize("text", ["", "-"])
def test_a_list_is_given_up_by_a_dash_and_not_by_an_empty_variable(text: str) -> None:
    options = read({"BERTH_RESERVED_SCHEDULER_NAMES": text, "BERTH_PROTECTED_NAMESPACES": text})
    given = (options.reserved_scheduler_names, options.protected_namespaces)
    assert given == (((), ()) if text else (("default-scheduler",), ("kube-system",)))


def test_the_head_of_the_file_is_no_setting() -> None:
    assert not set(HEAD) & {setting.key for setting in SETTINGS}
