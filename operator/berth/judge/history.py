"""The objects of a case as a cluster would tell of them, so that what is judged is a state with a past."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

Json = dict[str, Any]


def history(objects: Iterable[Json], random: Random) -> Iterator[tuple[str, bool, Json]]:
    """(kind, gone, body) in a random order that ends with exactly the given objects.

    Of four objects one was there before, under another UID and in another form, and was deleted; one has an older
    version that is updated; one is removed and comes back as it was. Versions are numbered so that no update looks like
    old news.
    """
    tracks = [list(_track(body, random)) for body in objects]
    turns = [index for index, track in enumerate(tracks) for _ in track]
    random.shuffle(turns)
    for version, index in enumerate(turns, 1):
        gone, body = tracks[index].pop(0)
        yield body["kind"], gone, {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def _track(body: Json, random: Random) -> Iterator[tuple[bool, Json]]:
    choice = random.randrange(4)
    if choice == 0:
        before = _otherwise(body, random)
        before["metadata"]["uid"] = body["metadata"]["uid"] + "-before"
        yield False, before
        yield True, before
    elif choice == 1:
        yield False, _otherwise(body, random)
    elif choice == 2:
        yield False, body
        yield True, body
    yield False, body


def _otherwise(body: Json, random: Random) -> Json:
    """The same object in an older form: other labels, and other in what scheduling looks at."""
    labels = {"before": "yes", "disk": random.choice(["ssd", "hdd"])}
    older = {**body, "metadata": {**body["metadata"], "labels": labels}}
    if body["kind"] in _OLDER:
        spec, status = _OLDER[body["kind"]](body.get("spec") or {})
        older |= {"spec": spec, "status": status}
    return older


def _node(_: Json) -> tuple[Json, Json]:
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "1", "example.com/old": "1"}
    return {"taints": [{"key": "before", "effect": "NoSchedule"}]}, {"allocatable": allocatable}


def _pod(spec: Json) -> tuple[Json, Json]:
    """With other requests and affinity; one that waits is nominated to a node that nobody knows."""
    requests = {"cpu": "3", "example.com/old": "1"}
    containers = [{**container, "resources": {"requests": requests}} for container in spec["containers"]]
    term = {"labelSelector": {"matchLabels": {"before": "yes"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {**spec, "containers": containers, "affinity": affinity}, {"nominatedNodeName": "nobody-knows"}


def _claim(spec: Json) -> tuple[Json, Json]:
    return {key: value for key, value in spec.items() if key != "volumeName"}, {"phase": "Pending"}


def _volume(spec: Json) -> tuple[Json, Json]:
    return {key: value for key, value in spec.items() if key not in ("claimRef", "nodeAffinity")}, {}


def _selecting(spec: Json) -> tuple[Json, Json]:
    return {**spec, "selector": {"before": "yes"}}, {}


def _budget(_: Json) -> tuple[Json, Json]:
    return {"selector": {"matchLabels": {"before": "yes"}}}, {"disruptionsAllowed": 7}


def _csi_node(_: Json) -> tuple[Json, Json]:
    return {"drivers": []}, {}


_OLDER = {
    "Node": _node,
    "Pod": _pod,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "Service": _selecting,
    "ReplicationController": _selecting,
    "PodDisruptionBudget": _budget,
    "CSINode": _csi_node,
}
