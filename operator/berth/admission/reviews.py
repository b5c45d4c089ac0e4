"""AdmissionReviews about SchedulingPolicies: what the API server asks, and the answer.

    CREATE, UPDATE  refused with every problem that the status would have; warnings otherwise
    UPDATE          of anything but spec is allowed: an invalid policy can still be labelled, and its finalizers removed
    DELETE          allowed; a warning names the policies that are based on it
    anything else   allowed

A refusal is a Status with reason Invalid and a cause for each problem, which kubectl prints like one of the schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

from berth.policy.fields.crd import PLURAL
from berth.policy.fields.spec_fields import GROUP, KIND
from berth.policy.records import Problem
from berth.policy.reviewing import PolicyReview
from berth.policy.wording import cut, on_one_line

API_VERSION = "admission.k8s.io/v1"
MESSAGE_LENGTH = 4096
WARNING_LENGTH = 1024  # the API server cuts them further where there are many
ALLOWED = PolicyReview()

_Object = Mapping[str, Any]


class Judge(Protocol):
    """What would be said of policies: `berth.policy.PolicyStore`."""

    def review(self, manifest: Mapping[str, object]) -> PolicyReview: ...

    def review_removal(self, name: str) -> PolicyReview: ...


class BadReview(ValueError):
    """It is no AdmissionReview; str() says what is wrong."""


class Request:
    """The request of an AdmissionReview; raises BadReview."""

    def __init__(self, raw: bytes) -> None:
        try:
            review = orjson.loads(raw)
        except ValueError as error:
            raise BadReview(f"it is not JSON: {error}") from None
        if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
            raise BadReview("it is not an AdmissionReview")
        if review.get("apiVersion") != API_VERSION:
            raise BadReview(f"apiVersion is not {API_VERSION}")
        request = review.get("request")
        if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
            raise BadReview("request.uid is missing")
        self._request: _Object = request

    @property
    def uid(self) -> str:
        return str(self._request["uid"])

    def judge(self, judge: Judge) -> PolicyReview:
        """Returns what is to be answered."""
        if not self._is_about_policy():
            return ALLOWED
        new, old = _mapping(self._request.get("object")), _mapping(self._request.get("oldObject"))
        match self._request.get("operation"):
            case "CREATE":
                return judge.review(new)
            case "UPDATE" if new.get("spec") != old.get("spec"):
                return judge.review(new)
            case "DELETE":
                return judge.review_removal(str(self._request.get("name") or ""))
        return ALLOWED

    def answer(self, review: PolicyReview) -> bytes:
        """Returns the AdmissionReview with the response."""
        response: dict[str, Any] = {"uid": self.uid, "allowed": not review.problems}
        if review.problems:
            response["status"] = _status(self._name(), review.problems)
        if review.warnings:
            response["warnings"] = [cut(on_one_line(warning), WARNING_LENGTH) for warning in review.warnings]
        return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})

    def _is_about_policy(self) -> bool:
        resource = _mapping(self._request.get("resource"))
        named = resource.get("group") == GROUP and resource.get("resource") == PLURAL
        return named and not self._request.get("subResource")

    def _name(self) -> str:
        given = self._request.get("name") or _mapping(_mapping(self._request.get("object")).get("metadata")).get("name")
        return given if isinstance(given, str) else ""


def _status(name: str, problems: Sequence[Problem]) -> dict[str, Any]:
    causes = [
        {"reason": "FieldValueInvalid", "field": problem.field, "message": on_one_line(problem.message)}
        for problem in problems
    ]
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": cut(on_one_line("; ".join(map(str, problems))), MESSAGE_LENGTH),
        "details": {"group": GROUP, "kind": KIND, "name": name, "causes": causes},
    }


def _mapping(value: object) -> _Object:
    return value if isinstance(value, dict) else {}
