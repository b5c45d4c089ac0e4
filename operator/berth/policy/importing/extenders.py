"""The extenders of a KubeSchedulerConfiguration, or of a Policy file, as those of a SchedulingPolicy.

They are the same services, asked in the same way; what differs is how they are written. A policy holds certificates as
PEM text, never as names of files; its timeout is in seconds. What kube-scheduler does without being told is written
down: it does not check the certificate of an extender with `enableHTTPS` and no CA.

What comes out is read as the extenders of a policy are (`extenders`), and what is wrong with it is told at the field
that it came from.
"""

import base64
import re
from collections.abc import Mapping

from berth.policy.extenders import VERBS, read_extenders
from berth.policy.fields.extender_fields import TIMEOUT_MAX_SECONDS
from berth.policy.importing.configuration import Notes, asks_nothing, read_items, read_mapping
from berth.policy.wording import show

Manifest = dict[str, object]

_SAME = (*VERBS, "nodeCacheCapable", "ignorable")  # what is called the same and means the same
_FIELDS = ("urlPrefix", *_SAME, "weight", "enableHTTPS", "tlsConfig", "httpTimeout", "managedResources")
# A field of a policy's tls, and where a configuration has it: as base64, or in a file.
_PEM = {"ca": ("caData", "caFile"), "certificate": ("certData", "certFile"), "key": ("keyData", "keyFile")}
_TLS_FIELDS = ("insecure", "serverName", *(name for pair in _PEM.values() for name in pair))
_RENAMED = {"timeoutSeconds": "httpTimeout", "tls": "tlsConfig", **{ours: data for ours, (data, _) in _PEM.items()}}
_DEFAULT_TIMEOUT_SECONDS = 5
_SECONDS_OF = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SCHEME = re.compile(r"^https?:", re.IGNORECASE)  # in any case for kube-scheduler, in small letters in a policy
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def import_extenders(value: object, notes: Notes, *, old: bool = False) -> list[Manifest]:
    """The extenders of the list; `old`: of a Policy file, where times are in nanoseconds and names in any case."""
    found: list[Manifest] = []
    origins: list[str] = []
    for origin, item in read_items(value, "extenders", notes):
        body = _read_fields(item, _FIELDS, origin, notes, any_case=old)
        extender = _read_extender(body, origin, f"spec.extenders[{len(found)}]", notes, old)
        if any(extender.get(verb) for verb in VERBS) or extender.get("managedResources"):
            found.append(extender)
            origins.append(origin)
        elif isinstance(item, Mapping):
            notes.warn(origin, f"is left out: it has none of {', '.join(VERBS)}, so nobody asks it")

    def note(where: str, message: str) -> None:
        notes.error(_as_configured(where, origins), message)

    read_extenders(found, note)
    return found


def _read_extender(body: Mapping[str, object], origin: str, ours: str, notes: Notes, old: bool) -> Manifest:
    """`ours` is where it will be in the policy."""
    extender: Manifest = {
        key: body[key]
        for key in ("urlPrefix", *_SAME, "managedResources")
        if not asks_nothing(body.get(key), (None, "", False, []))
    }
    url = extender.get("urlPrefix")
    if isinstance(url, str):
        extender["urlPrefix"] = url = _SCHEME.sub(lambda found: found[0].lower(), url)
    weight = body.get("weight", 0)
    if body.get("prioritizeVerb") or not asks_nothing(weight, (0,)):
        extender["weight"] = weight  # kube-scheduler wants one where it asks for points
    timeout = _timeout(body.get("httpTimeout"), f"{origin}.httpTimeout", notes, old)
    if timeout not in (0, _DEFAULT_TIMEOUT_SECONDS):
        extender["timeoutSeconds"] = timeout
    https = body.get("enableHTTPS", False)
    if not isinstance(https, bool):
        notes.error(f"{origin}.enableHTTPS", f"{show(https)} is not true or false")
    tls = _read_fields(body.get("tlsConfig", {}), _TLS_FIELDS, f"{origin}.tlsConfig", notes, any_case=old)
    if str(url).startswith("https:"):
        made = _read_tls(tls, https is True, f"{origin}.tlsConfig", ours, notes)
        if made:
            extender["tls"] = made
    elif tls:
        notes.warn(f"{origin}.tlsConfig", "is left out: urlPrefix does not start with https:")
    return extender


def _read_tls(given: Mapping[str, object], https: bool, where: str, ours: str, notes: Notes) -> Manifest:
    tls: Manifest = {key: given[key] for key in ("insecure", "serverName") if given.get(key)}
    files: dict[str, str] = {}
    for field, (data, file) in _PEM.items():
        if given.get(data):
            if text := _text_of(given[data], f"{where}.{data}", notes):
                tls[field] = text
        elif given.get(file):
            files[field] = file
    if https and "ca" not in tls and "ca" not in files:
        tls["insecure"] = True
    if tls.get("insecure") and "ca" in files:
        notes.error(f"{where}.caFile", "is not looked at while insecure is true: leave one of the two out")
    for field, file in files.items():
        text = f"a policy holds certificates, not names of files: put the text of {show(given[file])} into {ours}.tls"
        notes.warn(f"{where}.{file}", f"{text}.{field}")
    for field, other in (("certificate", "key"), ("key", "certificate")):
        if field in tls and other in files:
            notes.warn(f"{where}.{_PEM[field][0]}", f"is left out until there is {ours}.tls.{other}: put it in with it")
            del tls[field]
    return tls


# --- fields


def _read_fields(
    item: object, known: tuple[str, ...], where: str, notes: Notes, *, any_case: bool
) -> dict[str, object]:
    """The fields under the names of v1; `any_case`: Kubernetes read them so when there were Policy files."""
    names = {(name.lower() if any_case else name): name for name in known}
    found: dict[str, object] = {}
    for key, value in read_mapping(item, where, notes).items():
        name = names.get(str(key).lower() if any_case else str(key))
        if name is None:
            notes.error(f"{where}.{key}", f"unknown field; known are {', '.join(known)}")
        elif value is not None:
            found[name] = value
    return found


def _timeout(value: object, where: str, notes: Notes, old: bool) -> float:
    """Seconds; 0 where nothing, or nothing of use, is given."""
    seconds = round((_nanoseconds if old else _duration)(value, where, notes), 9)
    if seconds > TIMEOUT_MAX_SECONDS:
        notes.warn(where, f"is more than the {TIMEOUT_MAX_SECONDS} seconds that a policy may say, and is written so")
        return TIMEOUT_MAX_SECONDS
    return int(seconds) if seconds == int(seconds) else seconds


def _duration(value: object, where: str, notes: Notes) -> float:
    if value is None or value == "0":
        return 0
    parts = _DURATION_PART.findall(value) if isinstance(value, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != value:
        notes.error(where, f"{show(value)} is not a time such as 30s or 1m30s")
        return 0
    return sum(float(number) * _SECONDS_OF[unit] for number, unit in parts)


def _nanoseconds(value: object, where: str, notes: Notes) -> float:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        notes.error(where, f"{show(value)} is not a number of nanoseconds, such as 5000000000 for 5 seconds")
        return 0
    return value * 1e-9


def _text_of(value: object, where: str, notes: Notes) -> str:
    """Empty where it is none."""
    try:
        text = "".join(value.split()) if isinstance(value, str) else "!"
        return base64.b64decode(text, validate=True).decode("utf-8")
    except ValueError:
        notes.error(where, "is not the base64 of a text")
        return ""


def _as_configured(where: str, origins: list[str]) -> str:
    """The field of the configuration that a field of a policy's extenders was made of."""
    head, *rest = where.removeprefix("spec.").split(".")
    found = re.fullmatch(r"extenders\[([0-9]+)\]", head)
    origin = origins[int(found[1])] if found else head
    return ".".join([origin, *(_RENAMED.get(name, name) for name in rest)])
