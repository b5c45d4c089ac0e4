"""Snapshots without names: decisions stay the same, and nobody can tell whose cluster it was.

    replaced     names of objects, namespaces, containers, volumes and gates; UIDs; images; label keys and values,
                 wherever labels are selected; taints and tolerations; messages of conditions
    kept         label keys of Kubernetes, values that are numbers or "true" and "false", names of resources, CSI
                 drivers, disks, priorities, amounts, times; policies, and every word that a policy uses
    left out     annotations that no decision reads

Equal words get equal replacements, and replacements sort as the words did: ties are broken by the order of names.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from berth.engine.plugins.volume_binding import BIND_COMPLETED
from berth.engine.state.node_table import PREFER_AVOID_PODS
from berth.engine.state.volume_reservations import SELECTED_NODE
from berth.model import normalised_image, parse_int64
from berth.model.storage import CLASS_ANNOTATION, MIGRATED_ANNOTATION

Body = dict[str, Any]

POLICY: Final = "SchedulingPolicy"
NAMES: Final = frozenset(
    (
        "name",
        "namespace",
        "nodeName",
        "nominatedNodeName",
        "claimName",
        "volumeName",
        "storageClassName",
        "priorityClassName",
        "runtimeClassName",
        "nodeID",
        "resourceClaimName",
        "resourceClaimTemplateName",
    )
)
LABELS: Final = ("labels", "matchLabels", "nodeSelector")
KEY_FIELDS: Final = ("topologyKey",)
KEY_LISTS: Final = ("matchLabelKeys", "mismatchLabelKeys", "topologyKeys")
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
ANNOTATIONS: Final = (
    BIND_COMPLETED,
    SELECTED_NODE,
    PREFER_AVOID_PODS,
    MIGRATED_ANNOTATION,
    CLASS_ANNOTATION,
    DEFAULT_CLASS,
)
NODE_NAME: Final = "metadata.name"
WORDS_THAT_STAY: Final = ("", "true", "false", "default", "kube-system")
_OF_KUBERNETES: Final = re.compile(r"([\w.-]*\.)?(kubernetes\.io|k8s\.io)/.*")
_WORD: Final = re.compile(r"[A-Za-z0-9][\w./-]*")
_DIGITS: Final = 6


def anonymised(items: Iterable[Mapping[str, Any]]) -> list[Body]:
    """Returns the objects with every name replaced; policies are as they were."""
    bodies = list(items)
    stays = {word for body in bodies if body.get("kind") == POLICY for word in _words(body)}
    drivers = {_name(body) for body in bodies if body.get("kind") == "CSIDriver"}
    words = _Words({*stays, *drivers, *WORDS_THAT_STAY}, dict(_ephemeral_claims(bodies)))
    walk = _Walk(words)
    for collect in (True, False):
        walk.words.collecting = collect
        result = [dict(body) if body.get("kind") == POLICY else walk.object(body) for body in bodies]
        words.settle()
    return result


def _name(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, Mapping) else ""


def _ephemeral_claims(bodies: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yields the names of claims that are made of the names of a pod and of its ephemeral volume."""
    for body in bodies:
        spec = body.get("spec")
        volumes = spec.get("volumes") if body.get("kind") == "Pod" and isinstance(spec, Mapping) else None
        for volume in volumes if isinstance(volumes, list) else ():
            if isinstance(volume, Mapping) and volume.get("ephemeral") is not None:
                pod, name = _name(body), str(volume.get("name"))
                yield f"{pod}-{name}", (pod, name)


def _words(value: object) -> Iterator[str]:
    """Yields every text of a policy, and every word of it: an expression may name any label."""
    if isinstance(value, str):
        yield value
        yield from _WORD.findall(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)


class _Words:
    """The replacements. While words are collected, nothing is replaced; `settle` gives each its number."""

    def __init__(self, stays: set[str], composed: Mapping[str, tuple[str, str]]) -> None:
        """`composed`: names that are made of two others."""
        self._stays, self._composed = stays, composed
        self._found: dict[str, set[str]] = {}
        self._made: dict[str, dict[str, str]] = {}
        self.collecting = True

    def of(self, role: str, word: str) -> str:
        if word in self._stays or (role == "value" and parse_int64(word) is not None):
            return word
        if self.collecting:
            self._found.setdefault(role, set()).add(word)
            return word
        return self._made[role][word]

    def settle(self) -> None:
        for role, words in self._found.items():
            self._made[role] = {word: f"{role}-{n:0{_DIGITS}}" for n, word in enumerate(sorted(words), 1)}
        names = self._made.get("name", {})
        for word, (first, second) in self._composed.items():
            if word in names:
                names[word] = f"{names.get(first, first)}-{names.get(second, second)}"

    def uids_in(self, text: str) -> str:
        """Replaces the UIDs in a text."""
        for uid, replacement in self._made.get("uid", {}).items():
            text = text.replace(uid, replacement) if uid in text else text
        return text


class _Walk:
    def __init__(self, words: _Words) -> None:
        self.words = words

    def object(self, body: Mapping[str, Any]) -> Body:
        changed = {name: self._value(name, value) for name, value in body.items() if name != "metadata"}
        metadata = body.get("metadata")
        return {**changed, "metadata": self._metadata(metadata) if isinstance(metadata, Mapping) else metadata}

    def name(self, word: str) -> str:
        return self.words.of("name", word)

    def label_key(self, key: str) -> str:
        return key if _OF_KUBERNETES.fullmatch(key) else self.words.of("label", key)

    def label_value(self, value: str) -> str:
        """A value may be the name of a node (kubernetes.io/hostname) or of anything else, so it is one of the names."""
        return value if parse_int64(value) is not None else self.name(value)

    def _metadata(self, metadata: Mapping[str, Any]) -> Body:
        kept = {key: value for key, value in metadata.items() if key != "annotations"}
        changed: Body = self._mapping(kept)
        annotations = metadata.get("annotations")
        if isinstance(annotations, Mapping):
            changed["annotations"] = {
                key: self._annotation(key, value) for key, value in annotations.items() if self._keeps(key)
            }
        return changed

    def _keeps(self, annotation: str) -> bool:
        return annotation in ANNOTATIONS or self.words.of("annotation", annotation) == annotation

    def _annotation(self, key: str, value: Any) -> Any:
        if key in (SELECTED_NODE, CLASS_ANNOTATION) and isinstance(value, str):
            return self.name(value)
        return self.words.uids_in(value) if key == PREFER_AVOID_PODS and isinstance(value, str) else value

    def _mapping(self, body: Mapping[str, Any]) -> Body:
        if "key" in body and isinstance(body["key"], str):
            return self._requirement(body)
        return {name: self._value(name, value) for name, value in body.items()}

    def _requirement(self, body: Mapping[str, Any]) -> Body:
        """A requirement of a selector, a taint or a toleration."""
        is_name = body["key"] == NODE_NAME
        key = NODE_NAME if is_name else self.label_key(body["key"])
        change: Callable[[str], str] = self.name if is_name else self.label_value
        changed: Body = {**body, "key": key}
        if isinstance(body.get("values"), list):
            changed["values"] = [change(value) if isinstance(value, str) else value for value in body["values"]]
        if isinstance(body.get("value"), str):
            changed["value"] = change(body["value"])
        return changed

    def _value(self, name: str, value: Any) -> Any:
        special = self._special(name, value)
        if special is not None:
            return special
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list):
            return [self._value(name, item) for item in value]
        return value

    def _special(self, name: str, value: Any) -> Any:
        """Returns what the field becomes if it has words of its own; None if it is walked through."""
        if isinstance(value, str):
            return self._text(name, value)
        if name in LABELS and isinstance(value, Mapping):
            return self._labels(value)
        if name == "selector" and isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()):
            return self._labels(value)
        if name == "drivers" or name in ("allocatable", "capacity", "requests", "limits"):
            return [self._driver(each) for each in value] if name == "drivers" else value
        if name == "disruptedPods" and isinstance(value, Mapping):
            return {self.name(pod): moment for pod, moment in value.items()}
        return None

    def _driver(self, driver: Any) -> Any:
        """A driver of a CSINode keeps its name, which volumes and classes use."""
        if not isinstance(driver, Mapping):
            return driver
        return {**self._mapping({key: value for key, value in driver.items() if key != "name"}), "name": driver["name"]}

    def _text(self, name: str, value: str) -> str | None:
        change = self._texts().get(name)
        if change is not None:
            return change(value)
        return self.name(value) if name in NAMES else None

    def _texts(self) -> Mapping[str, Callable[[str], str]]:
        return {
            "uid": lambda word: self.words.of("uid", word),
            "image": self._image,
            "names": self._image,
            "reference": self._image,
            "namespaces": self.name,
            "message": lambda word: "",
            "reason": lambda word: word,
            **dict.fromkeys(KEY_FIELDS, self.label_key),
            **dict.fromkeys(KEY_LISTS, self.label_key),
        }

    def _image(self, image: str) -> str:
        """Images are compared with a tag: one without is the latest."""
        return self.words.of("image", normalised_image(image)) + ":v"

    def _labels(self, labels: Mapping[str, Any]) -> Body:
        return {
            self.label_key(key): self.label_value(value) if isinstance(value, str) else value
            for key, value in labels.items()
        }
