"""The small parts of answers: Accept lists, JSONPath, ages, dropped fields, bytes that are made once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from berth.sim.errors import StatusError
from berth.sim.server.encoding import Encoder
from berth.sim.server.negotiation import OBJECT_FORMS, Form, choose_form, decode_body, patch_kind
from berth.sim.server.printers.durations import human_duration
from berth.sim.server.printers.jsonpath import BadPath, find_all

BODY: dict[str, Any] = {
    "metadata": {"labels": {"example.test/a": "x"}},
    "spec": {"hosts": ["a", "b"], "size": 3},
    "status": {"conditions": [{"type": "Active", "status": "True"}, {"type": "Ready", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.WHOLE),
        ("*/*", Form.WHOLE),
        ("application/json, */*", Form.WHOLE),
        ("application/vnd.kubernetes.protobuf,application/json", Form.WHOLE),
        ("application/cbor;as=Table;v=v1;g=meta.k8s.io,application/json", Form.WHOLE),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", Form.METADATA),
        ("application/json;as=Picture;g=meta.k8s.io;v=v1,application/json", Form.WHOLE),
        ("application/json;stream=watch", Form.WHOLE),
    ],
)
def test_the_first_form_that_is_served_is_chosen(accept: str, form: Form) -> None:
    assert choose_form(accept, OBJECT_FORMS)[0] is form


def test_protobuf_alone_is_not_acceptable() -> None:
    with pytest.raises(StatusError) as caught:
        choose_form("application/vnd.kubernetes.protobuf", OBJECT_FORMS)
    assert caught.value.code == 406


def test_a_body_may_be_json_or_yaml_but_not_protobuf() -> None:
    assert decode_body(b'{"a": 1}', "application/json; charset=utf-8") == {"a": 1}
    assert decode_body(b"a: 2026-01-01\nb: yes\n", "application/yaml") == {"a": "2026-01-01", "b": True}
    for raw, content_type, code in ((b"\xa0", "application/cbor", 415), (b"{", "", 400)):
        with pytest.raises(StatusError) as caught:
            decode_body(raw, content_type)
        assert caught.value.code == code


def test_a_patch_is_known_by_its_content_type() -> None:
    assert patch_kind("application/apply-patch+yaml", custom=True) == "apply"
    assert patch_kind("application/strategic-merge-patch+json", custom=False) == "strategic"
    with pytest.raises(StatusError, match="unknown format"):
        patch_kind("application/json", custom=False)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.size", [3]),
        ("{.spec.size}", [3]),
        (".spec.hosts[1]", ["b"]),
        (".spec.hosts[-1]", ["b"]),
        (".spec.hosts[*]", ["a", "b"]),
        (".spec.hosts[7]", []),
        (".spec.nothing.at.all", []),
        (r".metadata.labels.example\.test/a", ["x"]),
        (".metadata.labels['example.test/a']", ["x"]),
        ('.status.conditions[?(@.type=="Active")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["False"]),
        ('.status.conditions[?(@.type=="Gone")].status', []),
    ],
)
def test_a_path_finds_its_values(path: str, values: list[Any]) -> None:
    assert find_all(path, BODY) == values


def test_an_invalid_path_is_refused() -> None:
    with pytest.raises(BadPath, match="is not understood"):
        find_all(".spec.hosts[?(@.a>3)]", BODY)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 120, "3h2m"),
        (8 * 3600 + 120, "8h"),
        (49 * 3600, "2d1h"),
        (9 * 86400 + 3600, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_read_as_in_kubectl(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_a_version_of_an_object_is_encoded_once_and_a_deleted_one_is_not_mixed_up_with_it() -> None:
    encoder = Encoder()
    metadata = {"uid": "u", "resourceVersion": "5"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"a": "new"}}
    old = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"a": "old"}}
    first = encoder.object(body)
    assert encoder.object(body) is first
    assert b'"old"' in encoder.event("DELETED", old)
    assert orjson.loads(encoder.event("MODIFIED", body))["object"] == body
    assert encoder.statistics() == {"reused": 2, "encoded": 1, "kept": 1}


def test_the_encoder_forgets_what_was_not_read_for_a_while() -> None:
    encoder = Encoder(kept_objects=4)
    for number in range(100):
        metadata = {"uid": str(number), "resourceVersion": "1"}
        encoder.object({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    assert encoder.statistics()["kept"] <= 4
