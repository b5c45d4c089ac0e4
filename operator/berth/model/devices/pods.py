"""The resource claims of a pod: by name, or made for the pod from a template."""

from __future__ import annotations

from dataclasses import dataclass

from ..fields import Body, read_list, read_object, read_required_text, read_text


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry of a pod's spec.resourceClaims.

    `claim_name` is "" if no claim is needed for it, None if the claim of a template is not made yet. An entry that is
    neither by name nor of a template is of a kind that is not known.
    """

    name: str
    claim_name: str | None
    of_template: bool
    known: bool


def build_pod_claims(pod: Body) -> tuple[PodClaim, ...]:
    """The claims of a pod, with the names that its status gives to those of templates."""
    made = dict(read_list(read_object(pod, "status"), "resourceClaimStatuses", _made))
    return read_list(read_object(pod, "spec"), "resourceClaims", lambda body: _claim(body, made))


def _made(body: Body) -> tuple[str, str]:
    return read_required_text(body, "name"), read_text(body, "resourceClaimName")


def _claim(body: Body, made: dict[str, str]) -> PodClaim:
    name, named = read_required_text(body, "name"), read_text(body, "resourceClaimName")
    if named:
        return PodClaim(name, named, of_template=False, known=True)
    template = read_text(body, "resourceClaimTemplateName")
    return PodClaim(name, made.get(name) if template else None, of_template=bool(template), known=bool(template))
