"""What settings of the process keep from the authors of policies: names, namespaces, addresses, files."""

import builtins
import os
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from berth.model import Pod, parse_pod
from berth.policy import PolicyStore
from berth.policy.limits import DEFAULT_LIMITS, Limits
from berth.policy.linting import lint
from policy import certificates
from policy.builders import make_policy
from policy.harness import Clock, condition, in_force, labels, summary, who
from support.builders import make_pod


def a_book(limits: Limits = DEFAULT_LIMITS, **options: Any) -> PolicyStore:
    return PolicyStore(Clock(), limits=limits, **options)


def trusting(*names: str) -> Limits:
    return replace(DEFAULT_LIMITS, trusted_policies=frozenset(names))


def a_system_pod(scheduler: str = "berth") -> Pod:
    return parse_pod(make_pod("dns", namespace="kube-system", scheduler=scheduler))


def refusal(store: PolicyStore, name: str = "batch") -> str:
    status = store.statuses()[name]
    accepted = condition(status, "Accepted")
    assert accepted["status"] == "False", accepted
    return str(accepted["message"])


class TestReservedNames:
    def test_a_policy_that_claims_one_is_refused_with_the_setting(self) -> None:
        store = a_book()
        store.observe(make_policy(schedulerName="default-scheduler"))
        message = refusal(store)
        assert "spec.schedulerName: default-scheduler is reserved" in message
        assert "--trusted-policies" in message
        assert in_force(store, "default-scheduler") == "nobody"

    @pytest.mark.parametrize("mode", ["Active", "Disabled"])
    def test_pods_of_the_name_stay_those_of_another_scheduler(self, mode: str) -> None:
        store = a_book()
        store.observe(make_policy(schedulerName="default-scheduler", mode=mode))
        assert not store.serves("default-scheduler")

    def test_a_trusted_policy_may_have_it(self) -> None:
        store = a_book(trusting("batch"))
        store.observe(make_policy(schedulerName="default-scheduler"))
        assert in_force(store, "default-scheduler") == "batch/1"

    def test_an_edit_to_it_leaves_the_last_good_generation_in_force(self) -> None:
        store = a_book()
        store.observe(make_policy(schedulerName="team"))
        store.observe(make_policy(schedulerName="default-scheduler", generation=2))
        assert in_force(store, "team") == "batch/1"
        assert summary(store.statuses()["batch"]) == "Invalid True LastGoodInForce 1"

    def test_a_shadow_decides_nothing_and_may_have_it(self) -> None:
        store = a_book()
        store.observe(make_policy(schedulerName="default-scheduler", mode="Shadow"))
        assert summary(store.statuses()["batch"]) == "Valid False Shadow 1"
        assert not store.serves("default-scheduler")

    def test_other_names_can_be_reserved_and_the_default_given_up(self) -> None:
        store = a_book(replace(DEFAULT_LIMITS, reserved_names=frozenset({"gpu"})))
        store.observe(make_policy("a", schedulerName="default-scheduler"))
        store.observe(make_policy("b", schedulerName="gpu"))
        assert in_force(store, "default-scheduler") == "a/1"
        assert "gpu is reserved" in refusal(store, "b")

    def test_a_user_who_edits_the_base_of_a_trusted_policy_does_not_decide_in_its_place(self) -> None:
        store = a_book(trusting("batch", "common"))
        store.observe(make_policy("anybody", schedulerName="x"))
        store.observe(make_policy("common", schedulerName="y"))
        store.observe(make_policy(schedulerName="default-scheduler", base="anybody"))
        assert "spec.base: this policy is trusted and anybody is not" in refusal(store)
        store.observe(make_policy(schedulerName="default-scheduler", base="common", generation=2))
        assert in_force(store, "default-scheduler") == "batch/2"


class TestProtectedNamespaces:
    def test_a_policy_decides_elsewhere_and_the_built_in_one_for_their_pods(self) -> None:
        store = a_book()
        store.observe(make_policy())
        assert in_force(store) == "batch/1"
        assert who(store, a_system_pod()) == "(built-in)/0"
        assert {active.policy.name for active in store.in_force()} == {"batch", "(built-in)"}

    def test_the_event_of_a_pod_says_why_no_policy_decides_for_it(self) -> None:
        store = a_book()
        store.observe(make_policy(schedulerName="team"))
        assert who(store, a_system_pod("team")) == "nobody"
        said = store.unserved(a_system_pod("team"), {})
        assert "the namespace kube-system is protected" in said
        assert "--trusted-policies of the operator does not name batch" in said

    def test_no_selector_gets_around_it(self) -> None:
        store = a_book()
        store.observe(make_policy(namespaceSelector=labels(**{"kubernetes.io/metadata.name": "kube-system"})))
        system = {"kubernetes.io/metadata.name": "kube-system"}
        assert who(store, a_system_pod(), **system) == "(built-in)/0"

    def test_a_trusted_policy_decides_even_where_another_supersedes_it_elsewhere(self) -> None:
        store = a_book(trusting("z-trusted"))
        store.observe(make_policy("a-other", schedulerName="team"))
        store.observe(make_policy("z-trusted", schedulerName="team"))
        assert in_force(store, "team") == "a-other/1"
        assert who(store, a_system_pod("team")) == "z-trusted/1"

    def test_without_the_built_in_policy_none_decides(self) -> None:
        store = a_book(built_in=False)
        store.observe(make_policy())
        assert who(store, a_system_pod()) == "nobody"

    def test_without_protected_namespaces_all_are_alike(self) -> None:
        store = a_book(replace(DEFAULT_LIMITS, protected_namespaces=frozenset()))
        store.observe(make_policy())
        assert who(store, a_system_pod()) == "batch/1"
        assert [active.policy.name for active in store.in_force()] == ["batch"]


class TestExtenders:
    def test_an_address_that_is_off_is_a_problem_of_the_policy_with_field_and_setting(self) -> None:
        store = a_book()
        listed = [{"urlPrefix": "http://a.svc", "filterVerb": "f"}, {"urlPrefix": "http://[::1]:1", "filterVerb": "f"}]
        store.observe(make_policy(extenders=listed))
        message = refusal(store)
        assert "spec.extenders[1].urlPrefix: a loopback address is not allowed: --extender-networks" in message
        assert "extenders[0]" not in message

    @pytest.mark.parametrize("field", ["ca", "certificate", "key"])
    @pytest.mark.parametrize("text", ["/etc/passwd", "file:///etc/passwd", "@/etc/passwd"])
    def test_no_certificate_field_names_a_file(self, field: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[object] = []
        for module, name in ((builtins, "open"), (os, "open"), (Path, "read_text"), (Path, "read_bytes")):
            monkeypatch.setattr(module, name, lambda *words, **options: opened.append(words))
        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda *words, **options: opened.append(words))
        store = a_book()
        pem = {"ca": certificates.CERTIFICATE, "certificate": certificates.CERTIFICATE, "key": certificates.KEY}
        extender = {"urlPrefix": "https://a.svc", "filterVerb": "f", "tls": pem | {field: text}}
        store.observe(make_policy(extenders=[extender]))
        assert f"spec.extenders[0].tls.{field}: is not PEM text" in refusal(store)
        assert opened == []

    @pytest.mark.parametrize("field", ["caFile", "certFile", "keyFile"])
    def test_the_fields_by_which_kube_scheduler_names_files_are_unknown(self, field: str) -> None:
        store = a_book()
        extender = {"urlPrefix": "https://a.svc", "filterVerb": "f", "tls": {field: "/etc/passwd"}}
        store.observe(make_policy(extenders=[extender]))
        assert f"spec.extenders[0].tls.{field}: unknown field" in refusal(store)


def test_lint_warns_of_what_an_operator_with_default_settings_refuses() -> None:
    extender = {"urlPrefix": "http://localhost", "filterVerb": "f"}
    manifest = make_policy(schedulerName="default-scheduler", extenders=[extender])
    found = [(finding.severity, finding.field) for finding in lint([("file", manifest)])]
    assert found == [("ok", ""), ("warning", "spec.schedulerName"), ("warning", "spec.extenders[0].urlPrefix")]
