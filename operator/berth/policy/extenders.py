"""The extenders of a policy as a manifest has them: read and checked, each problem with its path.

An extender is an HTTP service that is called beside the plugins, in kube-scheduler's protocol. All that can be checked
without a call is checked here: its address, its verbs, its TLS settings. The CRD takes the same texts.

Its address is shown in status and logs, so it carries no password. The rules beyond that are kube-scheduler's: a
resource is managed by one extender, one extender binds.
"""

import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from berth.model import is_extended_resource
from berth.policy.fields.extender_fields import (
    EXTENDER,
    EXTENDERS_MAX,
    MANAGED_RESOURCE,
    MANAGED_RESOURCES_MAX,
    PEM_MAX_LENGTH,
    SERVER_NAME_MAX_LENGTH,
    TIMEOUT_MAX_SECONDS,
    TLS,
    URL_PREFIX_MAX_LENGTH,
    URL_PREFIX_PATTERN,
    VERB_MAX_LENGTH,
    VERB_PATTERN,
    WEIGHT_MAX,
)
from berth.policy.reading import EMPTY, Note, read_flag, read_mapping, refuse_unknown
from berth.policy.records import Extender, ManagedResource, Predicate, Tls
from berth.policy.wording import show

VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind"}
FITTING = "NodeResourcesFit"


def read_extenders(value: object, note: Note) -> tuple[Extender, ...]:
    """Returns the valid extenders of `spec.extenders`; every problem is noted."""
    where = "spec.extenders"
    extenders = []
    for index, item in enumerate(_items(value, where, EXTENDERS_MAX, note)):
        extender = _read_extender(item, f"{where}[{index}]", note)
        if extender is not None:
            extenders.append(extender)
    _check_together(extenders, note)
    return tuple(extenders)


def leave_to_extenders(predicates: Iterable[Predicate], extenders: Iterable[Extender]) -> tuple[Predicate, ...]:
    """Returns the predicates, with NodeResourcesFit ignoring the resources that an extender manages.

    As in kube-scheduler they take the place of the plugin's own `ignoredResources`.
    """
    ignored = [resource.name for extender in extenders for resource in extender.managed_resources if resource.ignored]
    if not ignored:
        return tuple(predicates)
    return tuple(
        replace(entry, args={**entry.args, "ignoredResources": ignored}) if entry.plugin == FITTING else entry
        for entry in predicates
    )


def _read_extender(item: object, origin: str, note: Note) -> Extender | None:
    body = read_mapping(item, origin, note)
    if not isinstance(item, Mapping):
        return None
    refuse_unknown(body, EXTENDER.names, origin, note)
    verbs = {key: _text(body.get(key), f"{origin}.{key}", VERB_MAX_LENGTH, note) for key in VERBS}
    for key, verb in verbs.items():
        if verb and not _is_like(VERB_PATTERN, verb):
            note(f"{origin}.{key}", f"{show(verb)} is not a path: it is put behind urlPrefix and a slash")
    resources = _managed_resources(body.get("managedResources"), f"{origin}.managedResources", note)
    if all(body.get(key) is None for key in VERBS) and not any(resource.ignored for resource in resources):
        note(origin, f"is never asked: give it at least one of {', '.join(VERBS)}")
    url_prefix = _url_prefix(body.get("urlPrefix"), f"{origin}.urlPrefix", note)
    return Extender(
        url_prefix=url_prefix,
        filter_verb=verbs["filterVerb"],
        prioritize_verb=verbs["prioritizeVerb"],
        preempt_verb=verbs["preemptVerb"],
        bind_verb=verbs["bindVerb"],
        weight=_weight(body.get("weight"), f"{origin}.weight", note),
        timeout_seconds=_timeout(body.get("timeoutSeconds"), f"{origin}.timeoutSeconds", note),
        node_cache_capable=_flag(body, "nodeCacheCapable", origin, note),
        managed_resources=resources,
        ignorable=_flag(body, "ignorable", origin, note),
        tls=_tls(body.get("tls"), f"{origin}.tls", url_prefix, note),
        origin=origin,
    )


def _check_together(extenders: Iterable[Extender], note: Note) -> None:
    binder = ""
    managers: dict[str, str] = {}
    for extender in extenders:
        if extender.bind_verb and binder:
            note(f"{extender.origin}.bindVerb", f"one extender can bind, and {binder} does already")
        elif extender.bind_verb:
            binder = extender.origin
        for index, resource in enumerate(extender.managed_resources):
            where = f"{extender.origin}.managedResources[{index}].name"
            if resource.name in managers:
                note(where, f"{resource.name} is managed already, at {managers[resource.name]}")
            managers.setdefault(resource.name, where)


# --- fields


def _url_prefix(value: object, where: str, note: Note) -> str:
    if value is None or value == "":
        note(where, "is required: where the extender listens, for example http://extender.kube-system:8888/scheduler")
        return ""
    text = _text(value, where, URL_PREFIX_MAX_LENGTH, note)
    problem = _url_problem(text) if text else ""
    if problem:
        note(where, problem)
    return text


def _url_problem(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        return f"{show(text)} is not a URL: {error}"
    if parts.username is not None or parts.password is not None:
        return "carries a user name or password, which status and logs would show: use tls.certificate and tls.key"
    if not text.startswith(("http://", "https://")) or not _is_host(parts.hostname or ""):
        return f"{show(text)} is not a URL that starts with http:// or https://, in small letters, and names a host"
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        return f"{show(text)} has a query or a fragment: verbs are put behind it, so it has to end with a path"
    if not _is_like(URL_PREFIX_PATTERN, text):
        return f"{show(text)} has a space or a control character in it"
    return ""


def _is_host(name: str) -> bool:
    """Whether its parts are such that an address can be looked up for it."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def _is_like(pattern: str, text: str) -> bool:
    """As the API server sees it, and without what looks like a space in other scripts."""
    return re.fullmatch(pattern, text) is not None and text.isprintable()


def _managed_resources(value: object, where: str, note: Note) -> tuple[ManagedResource, ...]:
    resources = []
    for index, item in enumerate(_items(value, where, MANAGED_RESOURCES_MAX, note)):
        origin = f"{where}[{index}]"
        body = read_mapping(item, origin, note)
        if not isinstance(item, Mapping):
            continue
        refuse_unknown(body, MANAGED_RESOURCE.names, origin, note)
        ignored = _flag(body, "ignoredByScheduler", origin, note)
        name = body.get("name")
        if name is None:
            note(f"{origin}.name", "is required: an extended resource, for example example.com/fpga")
        elif not isinstance(name, str) or "kubernetes.io/" in name or not is_extended_resource(name):
            note(f"{origin}.name", f"{show(name)} is not the name of an extended resource, as example.com/fpga is")
        else:
            resources.append(ManagedResource(name, ignored))
    return tuple(resources)


def _weight(value: object, where: str, note: Note) -> int:
    if value is None:
        return 1
    if not isinstance(value, int) or isinstance(value, bool):
        note(where, f"{show(value)} is not a whole number")
    elif not 1 <= value <= WEIGHT_MAX:
        note(where, f"{show(value)} is not from 1 to {WEIGHT_MAX}")
    else:
        return value
    return 1


def _timeout(value: object, where: str, note: Note) -> float:
    default = Extender("").timeout_seconds
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool):
        note(where, f"{show(value)} is not a number of seconds")
    elif not 0 < value <= TIMEOUT_MAX_SECONDS:
        note(where, f"{show(value)} is not more than 0 and at most {TIMEOUT_MAX_SECONDS} seconds")
    else:
        return float(value)
    return default


def _tls(value: object, where: str, url_prefix: str, note: Note) -> Tls | None:
    if value is None:
        return None
    body = read_mapping(value, where, note)
    refuse_unknown(body, TLS.names, where, note)
    if url_prefix.startswith("http://"):
        note(where, "says how to trust https, but urlPrefix starts with http://: write https:// or leave tls out")
    tls = Tls(
        insecure=_flag(body, "insecure", where, note),
        server_name=_text(body.get("serverName"), f"{where}.serverName", SERVER_NAME_MAX_LENGTH, note),
        ca=_pem(body, "ca", "CERTIFICATE", where, note),
        certificate=_pem(body, "certificate", "CERTIFICATE", where, note),
        key=_pem(body, "key", "PRIVATE KEY", where, note),
    )
    if tls.insecure and body.get("ca"):
        note(f"{where}.ca", "is not looked at while insecure is true: leave one of the two out")
    for given, other in (("certificate", "key"), ("key", "certificate")):
        if body.get(given) and not body.get(other):
            note(f"{where}.{other}", f"is required where {given} is given")
    if tls.ca:
        _check_ca(tls.ca, f"{where}.ca", note)
    if tls.certificate and tls.key:
        _check_pair(tls, where, note)
    return tls


def _pem(body: Mapping[str, object], key: str, block: str, where: str, note: Note) -> str:
    """Returns PEM text, "" if there is none or it is invalid; its content is never shown."""
    value, where = body.get(key), f"{where}.{key}"
    if value is None:
        return ""
    if not isinstance(value, str) or "-----BEGIN " not in value or f"{block}-----" not in value:
        note(where, f"is not PEM text with a {block} block: put the text of the file here, not its name or base64")
    elif len(value) > PEM_MAX_LENGTH:
        note(where, f"has {len(value)} characters, may have {PEM_MAX_LENGTH}")
    elif block == "PRIVATE KEY" and "ENCRYPTED" in value:
        note(where, "is encrypted, and there is nobody to ask for the password: give the key in the clear")
    else:
        return value
    return ""


def _check_ca(text: str, where: str, note: Note) -> None:
    problem = _certificate_problem(text)
    if problem:
        note(where, problem)


def _certificate_problem(text: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        return f"holds no certificate that can be read: {error}"
    return ""


def _check_pair(tls: Tls, where: str, note: Note) -> None:
    """What Berth is to show of itself; nothing of the key is in what is said."""
    # Costs a twentieth of a second, and few policies have extenders with a certificate.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    problem = _certificate_problem(tls.certificate)
    if problem:
        note(f"{where}.certificate", problem)
        return
    certificate = x509.load_pem_x509_certificates(tls.certificate.encode())[0]
    try:
        key = load_pem_private_key(tls.key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        note(f"{where}.key", "holds no key that can be read: put the text of the key's file here")
        return
    if key.public_key() != certificate.public_key():
        note(f"{where}.key", "is not the key of certificate")


def _items(value: object, where: str, most: int, note: Note) -> Iterable[object]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        note(where, f"{show(value)} is not a list")
        return ()
    if len(value) > most:
        note(where, f"has {len(value)} entries, may have {most}")
        return ()
    return value


def _flag(body: Mapping[str, object], key: str, where: str, note: Note) -> bool:
    value = body.get(key)
    return False if value is None else read_flag(value, f"{where}.{key}", note, default=False)


def _text(value: object, where: str, most: int, note: Note) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        note(where, f"{show(value)} is not text")
    elif not value:
        note(where, EMPTY)
    elif len(value) > most:
        note(where, f"has {len(value)} characters, may have {most}")
    else:
        return value
    return ""
