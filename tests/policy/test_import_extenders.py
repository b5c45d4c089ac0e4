"""Extenders of kube-scheduler's configurations become those of a policy, and ask the same services in the same way."""

import base64
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from berth.policy import Imported, import_configuration, load_policy
from berth.policy.importing.manifest import write_source
from berth.policy.importing.sources import ConfigurationSource
from berth.policy.records import Extender, ManagedResource, Tls
from policy.builders import make_configuration, make_profile
from policy.certificates import CERTIFICATE, KEY, OTHER_KEY


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def make_extender(**fields: Any) -> dict[str, Any]:
    return {"urlPrefix": "http://x", "filterVerb": "filter", **fields}


def imported(*extenders: Any) -> Imported:
    return import_configuration(make_configuration(make_profile("a"), extenders=list(extenders)))


def imported_old(*extenders: Any) -> Imported:
    return import_configuration({"kind": "Policy", "apiVersion": "v1", "extenders": list(extenders)})


def extender_of(result: Imported) -> Extender:
    assert result.errors == ()
    [extender] = load_policy(result.manifests[0]).policy.extenders
    return extender


def texts(result: Imported) -> list[str]:
    return [str(problem) for problem in result.problems]


class TestWhatIsAsked:
    def test_everything_that_an_extender_can_say_is_carried_over(self) -> None:
        result = imported(
            make_extender(
                urlPrefix="https://x/scheduler",
                prioritizeVerb="prioritize",
                preemptVerb="preempt",
                bindVerb="bind",
                weight=7,
                httpTimeout="1m30s",
                enableHTTPS=True,
                tlsConfig={
                    "serverName": "extender",
                    "caData": encoded(CERTIFICATE),
                    "certData": encoded(CERTIFICATE),
                    "keyData": encoded(KEY),
                },
                nodeCacheCapable=True,
                managedResources=[{"name": "example.com/fpga", "ignoredByScheduler": True}],
                ignorable=True,
            )
        )
        assert result.problems == ()
        assert extender_of(result) == Extender(
            "https://x/scheduler",
            filter_verb="filter",
            prioritize_verb="prioritize",
            preempt_verb="preempt",
            bind_verb="bind",
            weight=7,
            timeout_seconds=90,
            node_cache_capable=True,
            managed_resources=(ManagedResource("example.com/fpga", True),),
            ignorable=True,
            tls=Tls(server_name="extender", ca=CERTIFICATE, certificate=CERTIFICATE, key=KEY),
        )

    def test_the_scheme_of_an_address_is_written_in_small_letters(self) -> None:
        result = imported(make_extender(urlPrefix="HTTPS://Extender", enableHTTPS=True))
        assert extender_of(result).url_prefix == "https://Extender"
        assert extender_of(result).tls == Tls(insecure=True)

    def test_what_says_the_default_is_not_written(self) -> None:
        plain = make_extender()
        silent = dict.fromkeys(("tlsConfig", "managedResources", "httpTimeout", "weight"))
        spoken = {"bindVerb": "", "weight": 0, "httpTimeout": "5s", "ignorable": False, "managedResources": []}
        for extender in (plain, plain | silent, plain | spoken, plain | {"httpTimeout": "0"}):
            assert imported(extender).manifests[0]["spec"]["extenders"] == [plain]  # type: ignore[index]

    def test_every_profile_asks_them(self) -> None:
        result = import_configuration(
            make_configuration(make_profile("a"), make_profile("b"), extenders=[make_extender()])
        )
        assert [len(load_policy(manifest).policy.extenders) for manifest in result.manifests] == [1, 1]

    def test_one_of_an_old_policy_has_its_time_in_nanoseconds_and_its_names_in_any_case(self) -> None:
        tls = {"CAData": encoded(CERTIFICATE), "ServerName": "extender"}
        result = imported_old(
            make_extender(urlPrefix="https://x", httpTimeout=250_000_000, enableHttps=True, tlsConfig=tls)
        )
        assert result.problems == ()
        extender = extender_of(result)
        assert (extender.timeout_seconds, extender.tls) == (0.25, Tls(server_name="extender", ca=CERTIFICATE))

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("100ms", 0.1), ("1.5s", 1.5), ("1h", 600), ("2m0.5s", 120.5), ("250us", 0.00025), (".5s", 0.5)],
    )
    def test_times_are_read_as_go_reads_them(self, text: str, seconds: float) -> None:
        assert extender_of(imported(make_extender(httpTimeout=text))).timeout_seconds == seconds

    def test_a_time_that_is_too_long_for_a_policy_is_cut_and_reported(self) -> None:
        assert texts(imported(make_extender(httpTimeout="1h"))) == [
            "warning: extenders[0].httpTimeout: is more than the 600 seconds that a policy may say, and is written so"
        ]

    def test_one_without_a_verb_is_left_out(self) -> None:
        result = imported({"urlPrefix": "http://x"}, make_extender(urlPrefix="http://y"))
        assert extender_of(result).url_prefix == "http://y"
        assert texts(result) == [
            "warning: extenders[0]: is left out: it has none of filterVerb, prioritizeVerb, preemptVerb, bindVerb, so "
            "nobody asks it"
        ]


class TestTrust:
    def test_https_without_a_ca_is_not_checked_as_in_kube_scheduler(self) -> None:
        assert extender_of(imported(make_extender(urlPrefix="https://x", enableHTTPS=True))).tls == Tls(insecure=True)
        assert extender_of(imported(make_extender(urlPrefix="https://x"))).tls is None

    def test_names_of_files_are_comments_that_say_what_to_paste_where(self) -> None:
        files = {"caFile": "/etc/ca.pem", "certData": encoded(CERTIFICATE), "keyFile": "/etc/key.pem"}
        result = imported(make_extender(), make_extender(urlPrefix="https://y", enableHTTPS=True, tlsConfig=files))
        assert load_policy(result.manifests[0]).policy.extenders[1].tls is None
        hint = "a policy holds certificates, not names of files: put the text of"
        assert texts(result) == [
            f'warning: extenders[1].tlsConfig.caFile: {hint} "/etc/ca.pem" into spec.extenders[1].tls.ca',
            f'warning: extenders[1].tlsConfig.keyFile: {hint} "/etc/key.pem" into spec.extenders[1].tls.key',
            "warning: extenders[1].tlsConfig.certData: is left out until there is spec.extenders[1].tls.key: put it in "
            "with it",
        ]

    def test_a_key_that_is_not_that_of_the_certificate_is_an_error_at_its_field(self) -> None:
        tls = {"certData": encoded(CERTIFICATE), "keyData": encoded(OTHER_KEY)}
        result = imported(make_extender(urlPrefix="https://x", tlsConfig=tls))
        assert texts(result) == ["error: extenders[0].tlsConfig.keyData: is not the key of certificate"]

    def test_trust_without_https_is_left_out(self) -> None:
        result = imported(make_extender(tlsConfig={"insecure": True}))
        assert extender_of(result).tls is None
        assert texts(result) == ["warning: extenders[0].tlsConfig: is left out: urlPrefix does not start with https:"]


@pytest.mark.parametrize(
    ("extender", "field", "message"),
    [
        (7, "", "7 is not a mapping"),
        ({"filterVerb": "filter"}, ".urlPrefix", "is required"),
        (make_extender(urlPrefix="ftp://x"), ".urlPrefix", "is not a URL that starts with http"),
        (make_extender(prioritizeVerb="p"), ".weight", "0 is not from 1"),
        (make_extender(prioritizeVerb="p", weight=-1), ".weight", "-1 is not from 1"),
        (make_extender(httpTimeout="soon"), ".httpTimeout", '"soon" is not a time such as 30s'),
        (make_extender(httpTimeout="-5s"), ".httpTimeout", '"-5s" is not a time'),
        (make_extender(httpTimeout=5), ".httpTimeout", "5 is not a time"),
        (make_extender(enableHTTPS="yes"), ".enableHTTPS", '"yes" is not true or false'),
        (make_extender(ignorable=0), ".ignorable", "0 is not true or false"),
        (make_extender(enableHttps=True), ".enableHttps", "unknown field; known are urlPrefix"),
        (make_extender(managedResources=[{"name": "cpu"}]), ".managedResources[0].name", "is not the name of an ext"),
        (make_extender(tlsConfig=7), ".tlsConfig", "7 is not a mapping"),
        (make_extender(tlsConfig={"ca": "x"}), ".tlsConfig.ca", "unknown field; known are insecure"),
        (
            make_extender(urlPrefix="https://x", tlsConfig={"caData": "no base64!"}),
            ".tlsConfig.caData",
            "is not the base64 of a text",
        ),
        (
            make_extender(urlPrefix="https://x", tlsConfig={"caData": encoded("no PEM")}),
            ".tlsConfig.caData",
            "is not PEM text",
        ),
        (
            make_extender(urlPrefix="https://x", tlsConfig={"insecure": True, "caFile": "x"}),
            ".tlsConfig.caFile",
            "is not looked at while insecure is true",
        ),
    ],
    ids=str,
)
def test_what_kube_scheduler_would_not_start_with_is_an_error(extender: object, field: str, message: str) -> None:
    [error] = imported(extender).errors
    assert error.field == f"extenders[0]{field}"
    assert message in error.message


def test_two_that_bind_are_an_error() -> None:
    binders = [make_extender(urlPrefix=f"http://{name}", bindVerb="bind") for name in "xy"]
    [error] = imported(*binders).errors
    assert (error.field, "one extender can bind" in error.message) == ("extenders[1].bindVerb", True)


@pytest.mark.parametrize("timeout", ["5s", -1, 2**63, 1.5, True])
def test_a_time_of_an_old_policy_is_a_whole_number(timeout: object) -> None:
    [error] = imported_old(make_extender(httpTimeout=timeout)).errors
    assert (error.field, "is not a number of nanoseconds" in error.message) == ("extenders[0].httpTimeout", True)


def test_certificates_are_written_on_lines_of_their_own_and_comments_above_the_extenders_of_each_policy() -> None:
    tls = {"caData": encoded(CERTIFICATE), "keyFile": "/etc/key.pem", "certFile": "/etc/cert.pem"}
    result = import_configuration(
        make_configuration(
            make_profile("a"),
            make_profile("b"),
            extenders=[make_extender(urlPrefix="https://x", enableHTTPS=True, tlsConfig=tls)],
        )
    )
    written = write_source(ConfigurationSource("file", result))
    assert list(yaml.safe_load_all(written)) == result.manifests
    for text in written.split("---\napiVersion"):
        comment, _, rest = text.partition("  extenders:\n")
        assert "  # extenders[0].tlsConfig.certFile: a policy holds certificates" in comment
        assert "ca: |\n" in rest
        assert "    -----BEGIN CERTIFICATE-----\n" in rest


NAMES = ["urlPrefix", "filterVerb", "prioritizeVerb", "weight", "httpTimeout", "enableHTTPS", "tlsConfig", "ignorable"]
INSIDE = ["managedResources", "name", "ignoredByScheduler", "insecure", "caData", "certData", "keyFile", "serverName"]
SCALARS = st.sampled_from(["https://x", "http://x", "example.com/a", "5s", encoded(CERTIFICATE), encoded(KEY), 2**70])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text(max_size=5) | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, *INSIDE]), inner, max_size=5),
    max_leaves=10,
)


@given(fields=st.dictionaries(st.sampled_from([*NAMES, "managedResources"]), JSON, max_size=4), old=st.booleans())
def test_whatever_an_extender_says_is_refused_or_makes_a_valid_policy(fields: dict[str, Any], old: bool) -> None:
    for extender in (fields, make_extender(**fields), make_extender(**{"urlPrefix": "https://x"} | fields)):
        result = (imported_old if old else imported)(extender)
        if not result.errors:
            load_policy(result.manifests[0])
            assert list(yaml.safe_load_all(write_source(ConfigurationSource("x", result)))) == result.manifests
