"""Extenders in a manifest: what is read, and that everything wrong is said with its path."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from berth.policy.extenders import leave_to_extenders, read_extenders
from berth.policy.records import Extender, ManagedResource, Predicate, Tls
from policy import certificates

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"


def read(*items: Any) -> tuple[tuple[Extender, ...], list[str]]:
    problems: list[str] = []
    extenders = read_extenders(list(items), lambda where, message: problems.append(f"{where}: {message}"))
    return extenders, problems


def an_extender(**fields: Any) -> dict[str, Any]:
    return {"urlPrefix": "https://extender.example", "filterVerb": "filter", **fields}


def test_every_field_is_read() -> None:
    extenders, problems = read(
        {
            "urlPrefix": "https://extender.example:8443/scheduler",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "weight": 5,
            "timeoutSeconds": 0.5,
            "nodeCacheCapable": True,
            "managedResources": [{"name": "example.com/fpga", "ignoredByScheduler": True}, {"name": "example.com/nic"}],
            "ignorable": True,
            "tls": {"serverName": "extender", "certificate": certificates.CERTIFICATE, "key": certificates.KEY},
        }
    )
    assert problems == []
    assert extenders == (
        Extender(
            url_prefix="https://extender.example:8443/scheduler",
            filter_verb="filter",
            prioritize_verb="prioritize",
            preempt_verb="preempt",
            bind_verb="bind",
            weight=5,
            timeout_seconds=0.5,
            node_cache_capable=True,
            managed_resources=(ManagedResource("example.com/fpga", True), ManagedResource("example.com/nic")),
            ignorable=True,
            tls=Tls(server_name="extender", certificate=certificates.CERTIFICATE, key=certificates.KEY),
        ),
    )
    assert extenders[0].origin == "spec.extenders[0]"


def test_what_is_not_said_has_the_defaults_of_kube_scheduler() -> None:
    extenders, problems = read({"urlPrefix": "http://extender", "filterVerb": "filter", "weight": None, "tls": None})
    assert problems == []
    assert extenders == (Extender("http://extender", filter_verb="filter", weight=1, timeout_seconds=5.0),)


def test_none_at_all_are_none() -> None:
    assert read_extenders(None, lambda where, message: pytest.fail(message)) == ()


@pytest.mark.parametrize(
    ("extender", "problem"),
    [
        ("text", 'spec.extenders[0]: "text" is not a mapping'),
        ({"filterVerb": "filter"}, "spec.extenders[0].urlPrefix: is required: where the extender listens"),
        (an_extender(urlPrefix=7), "spec.extenders[0].urlPrefix: 7 is not text"),
        (an_extender(urlPrefix=""), "spec.extenders[0].urlPrefix: is required: where the extender listens"),
        (
            an_extender(urlPrefix="HTTP://a"),
            'spec.extenders[0].urlPrefix: "HTTP://a" is not a URL that starts with http',
        ),
        (an_extender(urlPrefix="http://a..b"), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://" + "a" * 64), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://a/\x1b"), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://a\x00"), "spec.extenders[0].urlPrefix: "),
        (an_extender(filterVerb="fil\x1bter"), 'spec.extenders[0].filterVerb: "fil\\x1bter" is not a path'),
        (an_extender(filterVerb=""), "spec.extenders[0].filterVerb: is empty: leave it out"),
        (an_extender(bindVerb=""), "spec.extenders[0].bindVerb: is empty: leave it out"),
        (an_extender(tls={"serverName": ""}), "spec.extenders[0].tls.serverName: is empty: leave it out"),
        (an_extender(tls={"ca": ""}), "spec.extenders[0].tls.ca: is not PEM text with a CERTIFICATE block"),
        (an_extender(urlPrefix="extender:80"), 'spec.extenders[0].urlPrefix: "extender:80" is not a URL that starts'),
        (an_extender(urlPrefix="ftp://extender"), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://"), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://a b"), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://a:port"), 'spec.extenders[0].urlPrefix: "http://a:port" is not a URL: Port'),
        (an_extender(urlPrefix="http://[1"), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://a/b?c=d"), "spec.extenders[0].urlPrefix: "),
        (an_extender(urlPrefix="http://a/b#c"), "spec.extenders[0].urlPrefix: "),
        (
            an_extender(urlPrefix="http://" + "a" * 2050),
            "spec.extenders[0].urlPrefix: has 2057 characters, may have 2048",
        ),
        ({"urlPrefix": "http://a"}, "spec.extenders[0]: is never asked: give it at least one of filterVerb"),
        (an_extender(filterVerb=True), "spec.extenders[0].filterVerb: true is not text"),
        (an_extender(bindVerb="bind it"), 'spec.extenders[0].bindVerb: "bind it" is not a path'),
        (an_extender(preemptVerb="x?y"), 'spec.extenders[0].preemptVerb: "x?y" is not a path'),
        (
            an_extender(prioritiseVerb="x"),
            "spec.extenders[0].prioritiseVerb: unknown field; did you mean prioritizeVerb?",
        ),
        (an_extender(weight=0), "spec.extenders[0].weight: 0 is not from 1 to 2147483647"),
        (an_extender(weight=1.5), "spec.extenders[0].weight: 1.5 is not a whole number"),
        (an_extender(weight=True), "spec.extenders[0].weight: true is not a whole number"),
        (an_extender(timeoutSeconds=0), "spec.extenders[0].timeoutSeconds: 0 is not more than 0 and at most 600"),
        (an_extender(timeoutSeconds=601), "spec.extenders[0].timeoutSeconds: 601 is not more than 0 and at most 600"),
        (an_extender(timeoutSeconds="5s"), 'spec.extenders[0].timeoutSeconds: "5s" is not a number of seconds'),
        (an_extender(timeoutSeconds=float("nan")), "spec.extenders[0].timeoutSeconds: nan is not more than 0"),
        (an_extender(ignorable="yes"), 'spec.extenders[0].ignorable: "yes" is not true or false'),
        (an_extender(nodeCacheCapable=1), "spec.extenders[0].nodeCacheCapable: 1 is not true or false"),
        (an_extender(managedResources={}), "spec.extenders[0].managedResources: a mapping is not a list"),
        (an_extender(managedResources=["x"]), 'spec.extenders[0].managedResources[0]: "x" is not a mapping'),
        (an_extender(managedResources=[{}]), "spec.extenders[0].managedResources[0].name: is required"),
        (
            an_extender(managedResources=[{"name": "cpu"}]),
            'spec.extenders[0].managedResources[0].name: "cpu" is not the name of an extended resource',
        ),
        (
            an_extender(managedResources=[{"name": "kubernetes.io/x"}]),
            "spec.extenders[0].managedResources[0].name: ",
        ),
        (
            an_extender(managedResources=[{"name": "example.com/x", "ignored": True}]),
            "spec.extenders[0].managedResources[0].ignored: unknown field",
        ),
        (an_extender(tls="no"), 'spec.extenders[0].tls: "no" is not a mapping'),
        (an_extender(tls={"caFile": "x"}), "spec.extenders[0].tls.caFile: unknown field"),
        (an_extender(tls={"ca": "/etc/ca.pem"}), "spec.extenders[0].tls.ca: is not PEM text with a CERTIFICATE block"),
        (an_extender(tls={"ca": CERTIFICATE}), "spec.extenders[0].tls.ca: holds no certificate that can be read"),
        (an_extender(tls={"certificate": CERTIFICATE}), "spec.extenders[0].tls.key: is required where certificate is"),
        (an_extender(tls={"key": KEY}), "spec.extenders[0].tls.certificate: is required where key is given"),
        (
            an_extender(tls={"certificate": CERTIFICATE, "key": KEY.replace("PRIV", "ENCRYPTED PRIV")}),
            "spec.extenders[0].tls.key: is encrypted",
        ),
        (
            {"urlPrefix": "http://a", "filterVerb": "f", "tls": {"insecure": True}},
            "spec.extenders[0].tls: says how to trust https, but urlPrefix starts with http://",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_path(extender: Any, problem: str) -> None:
    _, problems = read(extender)
    assert [said for said in problems if said.startswith(problem)], problems


def test_everything_wrong_is_found_at_once() -> None:
    _, problems = read(an_extender(weight=0), {"urlPrefix": "nowhere", "tls": {"key": "x"}})
    assert [problem.partition(": ")[0] for problem in problems] == [
        "spec.extenders[0].weight",
        "spec.extenders[1]",
        "spec.extenders[1].urlPrefix",
        "spec.extenders[1].tls.key",
        "spec.extenders[1].tls.certificate",
    ]


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    _, problems = read(an_extender(urlPrefix="https://me:secret@extender"))
    assert len(problems) == 1
    assert "secret" not in problems[0]


def test_what_is_wrong_with_a_key_does_not_show_it() -> None:
    _, problems = read(an_extender(tls={"certificate": CERTIFICATE, "key": "c2VjcmV0"}))
    assert problems
    assert not any("c2VjcmV0" in problem for problem in problems)


def test_the_numbers_of_extenders_and_resources_are_bounded() -> None:
    assert read(*[an_extender()] * 17)[1] == ["spec.extenders: has 17 entries, may have 16"]
    resources = [{"name": f"example.com/r{number}"} for number in range(65)]
    assert read(an_extender(managedResources=resources))[1] == [
        "spec.extenders[0].managedResources: has 65 entries, may have 64"
    ]


def test_a_resource_is_managed_by_one_extender() -> None:
    resources = [{"name": "example.com/fpga"}]
    _, problems = read(an_extender(managedResources=resources), an_extender(managedResources=resources))
    assert problems == [
        "spec.extenders[1].managedResources[0].name: example.com/fpga is managed already, at "
        "spec.extenders[0].managedResources[0].name"
    ]


def test_one_extender_binds() -> None:
    _, problems = read(an_extender(bindVerb="bind"), an_extender(), an_extender(bindVerb="bind"))
    assert problems == ["spec.extenders[2].bindVerb: one extender can bind, and spec.extenders[0] does already"]


def test_an_extender_that_only_takes_resources_off_our_hands_needs_no_verb() -> None:
    resources = [{"name": "example.com/fpga", "ignoredByScheduler": True}]
    assert read({"urlPrefix": "http://a", "managedResources": resources})[1] == []


def test_an_authority_that_can_be_read_is_taken(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("certificates are made with openssl, which is not installed")
    request = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=a")
    subprocess.run([openssl, *request, "-keyout", "k", "-out", "c"], cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / "c").read_text()
    extenders, problems = read(an_extender(tls={"ca": text}))
    assert problems == []
    assert extenders[0].tls == Tls(ca=text)
    _, problems = read(an_extender(tls={"ca": text, "insecure": True}))
    assert problems == ["spec.extenders[0].tls.ca: is not looked at while insecure is true: leave one of the two out"]


@pytest.mark.parametrize(
    ("certificate", "key", "problem"),
    [
        (certificates.CERTIFICATE, certificates.KEY, ""),
        (f"subject=extender\n{certificates.CERTIFICATE}", f"Bag Attributes\n{certificates.KEY}", ""),
        (certificates.CERTIFICATE, certificates.OTHER_KEY, "tls.key: is not the key of certificate"),
        (certificates.CERTIFICATE, KEY, "tls.key: holds no key that can be read"),
        (CERTIFICATE, certificates.KEY, "tls.certificate: holds no certificate that can be read"),
    ],
)
def test_a_certificate_and_its_key_are_read(certificate: str, key: str, problem: str) -> None:
    _, problems = read(an_extender(tls={"certificate": certificate, "key": key}))
    assert len(problems) == bool(problem)
    assert all(said.startswith(f"spec.extenders[0].{problem}") for said in problems), problems
    assert not any("MII" in said for said in problems)


def test_resources_that_are_left_to_extenders_replace_those_that_the_plugin_ignores() -> None:
    fit = Predicate("NodeResourcesFit", {"ignoredResources": ["example.com/old"], "scoringStrategy": {}})
    other = Predicate("NodeName")
    managed = (ManagedResource("example.com/fpga", True), ManagedResource("example.com/nic"))
    left = leave_to_extenders((fit, other), [Extender("http://a", managed_resources=managed)])
    assert left[0].args == {"ignoredResources": ["example.com/fpga"], "scoringStrategy": {}}
    assert left[1] == other
    assert leave_to_extenders((fit, other), [Extender("http://a")]) == (fit, other)
