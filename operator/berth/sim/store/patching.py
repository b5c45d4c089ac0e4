"""Patches: JSON (RFC 6902), merge (RFC 7386), strategic merge, and what server-side apply comes to here.

All of them take a body and return a new one; what did not change may be shared with the old. Strategic merge knows the
lists that kubectl patches in the built-in kinds by name and key (containers by name, conditions by type, ...), with
$patch, $deleteFromPrimitiveList, $setElementOrder and $retainKeys; other lists are replaced, as in Kubernetes.

Apply merges what is sent over what is there, and removes what the same manager sent the last time and does not send
now. Fields have no owners, so there are no conflicts between managers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jsonpatch
from jsonpatch import JsonPatchException, JsonPointerException

from berth.sim.errors import StatusError, bad_request
from berth.sim.objects import copied

# The lists that are merged by a key; a name means the same thing in every built-in kind, except "ports".
MERGE_KEYS: Final[Mapping[str, str]] = {
    "conditions": "type",
    "addresses": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "allocatedResourcesStatus": "name",
    "secrets": "name",
    "drivers": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "podIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
}
MERGED_PRIMITIVES: Final = frozenset({"finalizers", "podCIDRs"})
ORDER: Final = "$setElementOrder/"
DIRECTIVES: Final = ("$patch", "$retainKeys", ORDER, "$deleteFromPrimitiveList/")

# (name of the list, its items) -> the keys that tell its items apart, or () if the list is replaced as a whole.
KeysOf = Callable[[tuple[str, ...], Sequence[Any]], tuple[str, ...]]


def rejected() -> StatusError:
    """What the real server says about any JSON patch that cannot be carried out."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


# -- merge patch -------------------------------------------------------------------------------------------------------


def merge(body: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copied(patch)
    merged = dict(body) if isinstance(body, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


# -- JSON patch --------------------------------------------------------------------------------------------------------


def json_patch(body: Any, operations: object) -> Any:
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        shown = "object" if isinstance(operations, dict) else "value"
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {shown} into Go value of type []handlers.jsonPatchOp"
        )
    try:
        return jsonpatch.apply_patch(body, copied(operations))
    except (JsonPatchException, JsonPointerException, TypeError, ValueError) as error:
        raise rejected() from error


# -- strategic merge ---------------------------------------------------------------------------------------------------


def built_in_keys(path: tuple[str, ...], sample: Sequence[Any]) -> tuple[str, ...]:
    """How items of a list of a built-in kind are told apart."""
    name = path[-1] if path else ""
    if name == "ports":
        return ("containerPort",) if any("containerPort" in item for item in sample) else ("port",)
    return (MERGE_KEYS[name],) if name in MERGE_KEYS else ()


def strategic(body: Any, patch: Any, keys_of: KeysOf = built_in_keys, path: tuple[str, ...] = ()) -> Any:
    """A strategic merge patch; `keys_of` knows which lists are merged."""
    if not isinstance(patch, dict):
        return copied(patch)
    match patch.get("$patch"):
        case "replace":
            return copied({key: value for key, value in patch.items() if key != "$patch"})
        case "delete":
            return {}
    merged = dict(body) if isinstance(body, dict) else {}
    if "$retainKeys" in patch:
        merged = {key: value for key, value in merged.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith(DIRECTIVES):
            continue
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, list):
            order = patch.get(f"{ORDER}{key}")
            merged[key] = _merged_list(merged.get(key), value, order, keys_of, (*path, key))
        else:
            merged[key] = strategic(merged.get(key), value, keys_of, (*path, key))
    return _directed(merged, patch, keys_of, path)


def _merged_list(old: Any, new: list[Any], order: Any, keys_of: KeysOf, path: tuple[str, ...]) -> list[Any]:
    """`order` is what $setElementOrder says about the list, if anything."""
    before = old if isinstance(old, list) else []
    if path[-1] in MERGED_PRIMITIVES and keys_of is built_in_keys:
        merged = [*before, *(item for item in new if item not in before)]
        return _ordered(merged, order or new, before, ())
    if any(not isinstance(item, dict) for item in new):
        return copied(new)
    if any(item.get("$patch") == "replace" for item in new):
        return copied([item for item in new if item.get("$patch") != "replace"])
    keys = keys_of(path, [*before, *new])
    if not keys:
        return copied(new)
    merged = _merged_by_key(before, new, keys, keys_of, path)
    return _ordered(merged, order or new, before, keys)


def _merged_by_key(
    before: list[Any], new: list[Any], keys: tuple[str, ...], keys_of: KeysOf, path: tuple[str, ...]
) -> list[Any]:
    merged = {_identity(item, keys): item for item in before if isinstance(item, dict)}
    for item in new:
        identity = _identity(item, keys)
        if item.get("$patch") == "delete":
            merged.pop(identity, None)
        else:
            merged[identity] = strategic(merged.get(identity, {}), item, keys_of, path)
    return list(merged.values())


def _identity(item: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(item, dict) or not keys:
        return (str(item),)
    if keys == ("containerPort",):
        # The protocol tells ports apart beyond the key that a patch is merged by.
        return (str(item.get("containerPort")), str(item.get("protocol", "TCP")))
    return tuple(str(item.get(key)) for key in keys)


def _directed(
    merged: dict[str, Any], patch: Mapping[str, Any], keys_of: KeysOf, path: tuple[str, ...]
) -> dict[str, Any]:
    """Carry out $deleteFromPrimitiveList, and $setElementOrder of lists of which nothing else is patched."""
    for directive, value in patch.items():
        name = directive.partition("/")[2]
        if not isinstance(merged.get(name), list):
            continue
        if directive.startswith("$deleteFromPrimitiveList/"):
            merged[name] = [item for item in merged[name] if item not in value]
        elif directive.startswith(ORDER) and name not in patch:
            merged[name] = _ordered(merged[name], value, merged[name], keys_of((*path, name), merged[name]))
    return merged


def _ordered(items: list[Any], order: list[Any], before: list[Any], keys: tuple[str, ...]) -> list[Any]:
    """The patch's items in its order, the others in theirs, merged by where they were; else the patch's first."""
    places = {_identity(item, keys): place for place, item in enumerate(order)}
    were = {_identity(item, keys): place for place, item in enumerate(before)}
    patched = sorted((i for i in items if _identity(i, keys) in places), key=lambda i: places[_identity(i, keys)])
    others = [item for item in items if _identity(item, keys) not in places]
    merged: list[Any] = []
    while others and patched:
        other, mine = were.get(_identity(others[0], keys)), were.get(_identity(patched[0], keys))
        is_first = other is not None and mine is not None and other < mine
        merged.append(others.pop(0) if is_first else patched.pop(0))
    return [*merged, *patched, *others]


# -- apply -------------------------------------------------------------------------------------------------------------


def apply(body: Any, applied: Any, previously: Any, keys_of: KeysOf) -> Any:
    """What is there, without what the manager no longer sends, and with what it sends."""
    kept = body if previously is None else _forget(body, previously, applied, keys_of, ())
    return _laid_over(kept, applied, keys_of, ())


def _laid_over(body: Any, applied: Any, keys_of: KeysOf, path: tuple[str, ...]) -> Any:
    """What is applied over what is there; items of a merged list keep their places, and new ones come last."""
    if isinstance(applied, dict):
        merged = dict(body) if isinstance(body, dict) else {}
        for key, value in applied.items():
            if value is not None:
                merged[key] = _laid_over(merged.get(key), value, keys_of, (*path, key))
        return merged
    if isinstance(applied, list) and isinstance(body, list):
        return _items_laid_over(body, applied, keys_of, path)
    return copied(applied)


def _items_laid_over(body: list[Any], applied: list[Any], keys_of: KeysOf, path: tuple[str, ...]) -> list[Any]:
    if path[-1] in MERGED_PRIMITIVES:
        return [*body, *(item for item in applied if item not in body)]
    keys = keys_of(path, [item for item in (*body, *applied) if isinstance(item, dict)])
    if not keys:
        return copied(applied)
    merged = {_identity(item, keys): item for item in body}
    for item in applied:
        identity = _identity(item, keys)
        merged[identity] = _laid_over(merged.get(identity), item, keys_of, path)
    return list(merged.values())


def _forget(body: Any, previously: Any, applied: Any, keys_of: KeysOf, path: tuple[str, ...]) -> Any:
    if not (isinstance(body, dict) and isinstance(previously, dict) and isinstance(applied, dict)):
        return body
    kept = dict(body)
    for key, old in previously.items():
        if key not in kept:
            continue
        if key not in applied:
            del kept[key]
        elif isinstance(old, list):
            kept[key] = _forget_items(kept[key], old, applied[key], keys_of, (*path, key))
        else:
            kept[key] = _forget(kept[key], old, applied[key], keys_of, (*path, key))
    return kept


def _forget_items(body: Any, previously: list[Any], applied: Any, keys_of: KeysOf, path: tuple[str, ...]) -> Any:
    items = [item for item in previously if isinstance(item, dict)]
    keys = keys_of(path, items)
    if not keys or not isinstance(body, list) or not isinstance(applied, list):
        return body
    old = {_identity(item, keys): item for item in items}
    new = {_identity(item, keys): item for item in applied if isinstance(item, dict)}
    kept = []
    for item in body:
        identity = _identity(item, keys)
        if identity in new and identity in old:
            kept.append(_forget(item, old[identity], new[identity], keys_of, path))
        elif identity not in old:
            kept.append(item)
    return kept
