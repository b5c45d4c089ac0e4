"""AdmissionReviews: which policies are refused, and what the answer says."""

from typing import Any

import orjson
import pytest

from berth.admission.reviews import BadReview, Request
from berth.policy import PolicyStore
from policy.builders import make_policy
from policy.harness import BAD, Clock

RESOURCE = {"group": "berth.dev", "version": "v1alpha1", "resource": "schedulingpolicies"}
TYPO: dict[str, Any] = {"priorities": [{"name": "NodeResourcesFitt"}]}


def review(operation: str, new: Any = None, old: Any = None, **more: Any) -> bytes:
    name = ((new or old or {}).get("metadata") or {}).get("name", "")
    request = {"uid": "u-1", "operation": operation, "resource": RESOURCE, "name": name, "object": new}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return orjson.dumps({**body, "request": {**request, "oldObject": old, **more}})


def answered(raw: bytes, *policies: dict[str, Any]) -> dict[str, Any]:
    store = PolicyStore(Clock())
    for policy in policies:
        store.observe(policy)
    request = Request(raw)
    answer = orjson.loads(request.answer(request.judge(store)))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = answer["response"]
    assert response["uid"] == "u-1"
    return response


def test_a_valid_policy_is_allowed_without_a_word() -> None:
    assert answered(review("CREATE", make_policy())) == {"uid": "u-1", "allowed": True}


def test_an_invalid_policy_is_refused_with_a_cause_for_each_problem() -> None:
    response = answered(review("CREATE", make_policy(**TYPO, **BAD)))
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert (status["details"]["kind"], status["details"]["name"]) == ("SchedulingPolicy", "batch")
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert "did you mean NodeResourcesFit?" in causes["spec.priorities[0].name"]
    assert set(causes) == {"spec.priorities[0].name", "spec.tieBreak"}
    assert "spec.priorities[0].name: " in status["message"]


def test_an_edit_is_judged_as_a_new_policy_is() -> None:
    good, bad = make_policy(), make_policy(generation=2, **BAD)
    assert not answered(review("UPDATE", bad, good), good)["allowed"]
    assert answered(review("UPDATE", good, bad), bad)["allowed"]


def test_an_invalid_policy_can_be_labelled_and_lose_its_finalizers() -> None:
    bad = make_policy(**BAD)
    labelled = {**bad, "metadata": {**bad["metadata"], "labels": {"a": "b"}}, "status": {"placed": 3}}
    assert answered(review("UPDATE", labelled, bad), bad) == {"uid": "u-1", "allowed": True}


def test_a_status_is_not_judged() -> None:
    bad = make_policy(**BAD)
    assert answered(review("UPDATE", bad, make_policy(), subResource="status"))["allowed"]


def test_another_kind_is_not_judged() -> None:
    other = {**RESOURCE, "resource": "others"}
    assert answered(review("CREATE", make_policy(**BAD), resource=other))["allowed"]


def test_the_deletion_of_a_base_is_allowed_with_a_warning_that_names_who_uses_it() -> None:
    base = make_policy("base", schedulerName="base")
    raw = review("DELETE", None, base)
    assert answered(raw, base) == {"uid": "u-1", "allowed": True}
    response = answered(raw, base, make_policy(base="base"))
    assert response["allowed"] is True
    assert response["warnings"][0].startswith("batch is based on SchedulingPolicy base")


def test_warnings_fit_into_a_header() -> None:
    name = "x" * 250
    response = answered(review("CREATE", make_policy(base=name)))
    assert response["allowed"] is True
    assert all(len(warning) <= 1024 and warning.isprintable() for warning in response["warnings"])


@pytest.mark.parametrize("operation", ["CONNECT", "", None])
def test_other_operations_are_allowed(operation: Any) -> None:
    assert answered(review(operation, make_policy(**BAD)))["allowed"]


@pytest.mark.parametrize("new", [None, 7, [], "text", {"spec": 3}, {"metadata": 3, "spec": {"base": []}}])
def test_an_object_of_any_shape_is_judged_and_never_an_error(new: Any) -> None:
    raw = review("CREATE", make_policy())
    body = orjson.loads(raw)
    body["request"]["object"] = new
    assert answered(orjson.dumps(body))["allowed"] is False


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "it is not JSON"),
        (b"[]", "it is not an AdmissionReview"),
        (b'{"kind": "Pod"}', "it is not an AdmissionReview"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}', "apiVersion is not"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "request.uid is missing"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": 7}}', "request.uid"),
        (b"[" * 100_000, "it is not JSON"),
    ],
)
def test_what_is_no_review_is_named(raw: bytes, words: str) -> None:
    with pytest.raises(BadReview, match=words.replace(".", r"\.")):
        Request(raw)
