"""Manifests as YAML for people and for kubectl, with comments at the places that they are about.

Texts are quoted wherever some reader of YAML could take them for something else: kubectl's takes `y` for true and `1e3`
for a number where Python's does not.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from berth.policy.importing.configuration import ImportProblem
from berth.policy.importing.sources import ConfigurationSource
from berth.policy.importing.translating import DEFAULT_SCHEDULER_NAME, Manifest

WIDTH = 120
# The list of a policy that says what plugins do at an extension point of kube-scheduler.
_LIST_AT = {
    **dict.fromkeys(("preFilter", "filter", "reserve", "preBind"), "predicates"),
    **dict.fromkeys(("preScore", "score"), "priorities"),
}
# Where a policy says what the configuration says in these fields.
_SETTING_OF = dict.fromkeys(("podInitialBackoffSeconds", "podMaxBackoffSeconds"), "backoff")
# A field, of a profile or of the whole: which profile, and the point of a plugin set or else the field's own name.
_FIELD = re.compile(r"(?:profiles\[(?P<profile>\d+)\]\.)?(?:plugins\.(?P<point>\w+)|(?P<field>\w*))")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9./_-]+")
_BLOCK = re.compile(r"(?:-----[A-Z ]+-----\n|[A-Za-z0-9+/=]+\n)+")  # PEM, on the lines that it has
_SHARED_NAME = "Pods that name no scheduler have this name: it must not be kube-scheduler's at the same time."


def write_source(source: ConfigurationSource) -> str:
    """The policies of one configuration, `---` between them; what they do not say is a comment where it would be."""
    manifests, problems = source.imported
    comments: list[dict[str, list[str]]] = [{} for _ in manifests]
    for problem in problems:
        for index, place in _places(problem, manifests):
            comments[index].setdefault(place, []).append(f"{problem.field}: {problem.message}")
    for index, manifest in enumerate(manifests):
        profile = f", profiles[{index}]" if len(manifests) > 1 else ""
        comments[index].setdefault("", []).insert(0, f"From {source.name}{profile}")
        if _spec(manifest)["schedulerName"] == DEFAULT_SCHEDULER_NAME:
            comments[index].setdefault("schedulerName", []).append(_SHARED_NAME)
    return "---\n".join(write_manifest(*pair) for pair in zip(manifests, comments, strict=True))


def write_manifest(manifest: Manifest, comments: Mapping[str, Iterable[str]]) -> str:
    """YAML; `comments` go above the fields of the spec that they are under, and under "" above everything."""
    head = {key: value for key, value in manifest.items() if key != "spec"}
    parts = [_comment(comments.get("", ())), _dump(head), "spec:\n"]
    for key, value in _spec(manifest).items():
        body = _comment(comments.get(key, ()), WIDTH - 2) + _dump({key: value})
        parts.append(textwrap.indent(body, "  "))
    return "".join(parts)


def _spec(manifest: Manifest) -> Mapping[str, object]:
    spec = manifest["spec"]
    assert isinstance(spec, Mapping)
    return spec


def _places(problem: ImportProblem, manifests: list[Manifest]) -> list[tuple[int, str]]:
    """Which manifests the problem belongs to, and which field of their specs; "" for the head.

    One of a profile is its policy's; what the configuration says of all profiles is where it is written, in each
    policy, or, where it is in none, at the head of the first.
    """
    found = _FIELD.match(problem.field)
    assert found is not None
    key = _LIST_AT.get(found["point"], "") if found["point"] else _SETTING_OF.get(found["field"], found["field"])
    if found["profile"]:
        index = int(found["profile"])
        return [(index, key if key in _spec(manifests[index]) else "")]
    written = [(index, key) for index, manifest in enumerate(manifests) if key in _spec(manifest)]
    return written or [(0, "")]


def _comment(texts: Iterable[str], width: int = WIDTH) -> str:
    lines = []
    for text in texts:
        readable = "".join(sign if sign.isprintable() else " " for sign in text)
        lines += textwrap.wrap(
            readable,
            width,
            initial_indent="# ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "".join(f"{line}\n" for line in lines)


# --- YAML


class _Dumper(yaml.SafeDumper):
    """Everything written out: an alias saves space and costs the reader. What has certificates in it is not folded."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        if any(isinstance(value, str) and _BLOCK.fullmatch(value) for value in mapping.values()):
            node.flow_style = False
        return node


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if _BLOCK.fullmatch(text) else None if _PLAIN.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _dump(body: Mapping[str, object]) -> str:
    """A field a line; in what a field holds, mappings and lists without others inside them are on one line."""
    flow = None if any(isinstance(value, list) for value in body.values()) else False
    text: str = yaml.dump(body, Dumper=_Dumper, default_flow_style=flow, sort_keys=False, width=WIDTH - 2)
    return text
