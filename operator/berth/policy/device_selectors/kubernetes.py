"""The libraries that Kubernetes adds: quantities, versions, addresses, URLs, formats, regular expressions."""

from __future__ import annotations

import base64
import ipaddress
import re
import urllib.parse
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from berth.model import parse_quantity

from .overloads import Library
from .regular import find, find_all
from .values import (
    CIDR,
    IP,
    MAX_INT,
    NONE,
    URL,
    EvaluationError,
    Format,
    Optional,
    Quantity,
    Semver,
    equal,
    normalised_semver,
    parse_semver,
)

NANO: Final = 10**9
_MOST_VALUES: Final = 48  # of an attribute that is a list
QUANTITY, SEMVER, ADDRESS, NETWORK, LINK = (
    "kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR", "kubernetes.URL",
)  # fmt: skip


def add_kubernetes(library: Library) -> None:
    _add_quantities(library)
    _add_versions(library)
    _add_addresses(library)
    _add_links(library)
    _add_formats(library)
    library.method("includes", "dyn dyn", "bool", _includes)
    library.method("find", "string string", "string", find)
    library.method("findAll", "string string", "list(string)", find_all)
    library.method("findAll", "string string int", "list(string)", find_all)


def _includes(value: Any, wanted: Any) -> bool:
    """Whether a list has an item, or another value is equal to it."""
    if not isinstance(value, list):
        return _same(value, wanted)
    for place, item in enumerate(value):
        if place >= _MOST_VALUES:
            problem = f"'includes' function cannot be applied to lists longer than {_MOST_VALUES} values"
            raise EvaluationError(problem)
        if _same(item, wanted):
            return True
    return False


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and equal(one, other)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


# --- quantities


def _add_quantities(library: Library) -> None:
    library.add("quantity", "string", QUANTITY, _quantity)
    library.add("isQuantity", "string", "bool", lambda text: _parses(_quantity, text))
    library.add("sign", QUANTITY, "int", lambda q: _order(q.nanos, 0))
    method = library.method
    method("isInteger", QUANTITY, "bool", lambda q: q.nanos % NANO == 0 and abs(q.nanos // NANO) <= MAX_INT)
    method("asInteger", QUANTITY, "int", _as_integer)
    method("asApproximateFloat", QUANTITY, "double", lambda q: q.nanos / NANO)
    method("isGreaterThan", f"{QUANTITY} {QUANTITY}", "bool", lambda a, b: a > b)
    method("isLessThan", f"{QUANTITY} {QUANTITY}", "bool", lambda a, b: a < b)
    method("compareTo", f"{QUANTITY} {QUANTITY}", "int", _order)
    method("add", f"{QUANTITY} {QUANTITY}", QUANTITY, lambda a, b: Quantity(a.nanos + b.nanos))
    method("add", f"{QUANTITY} int", QUANTITY, lambda a, b: Quantity(a.nanos + b * NANO))
    method("sub", f"{QUANTITY} {QUANTITY}", QUANTITY, lambda a, b: Quantity(a.nanos - b.nanos))
    method("sub", f"{QUANTITY} int", QUANTITY, lambda a, b: Quantity(a.nanos - b * NANO))


def _quantity(text: str) -> Quantity:
    try:
        if text != text.strip():
            raise ValueError
        return Quantity(parse_quantity(text))
    except ValueError:
        problem = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        raise EvaluationError(problem) from None


def _as_integer(quantity: Quantity) -> int:
    whole, rest = divmod(quantity.nanos, NANO)
    if rest or abs(whole) > MAX_INT:
        raise EvaluationError("cannot convert value to integer")
    return whole


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


# --- versions


def _add_versions(library: Library) -> None:
    library.add("semver", "string", SEMVER, parse_semver)
    library.add("semver", "string bool", SEMVER, _semver)
    library.add("isSemver", "string", "bool", lambda text: _parses(parse_semver, text))
    library.add("isSemver", "string bool", "bool", lambda text, loose: _parses(lambda t: _semver(t, loose), text))
    method = library.method
    method("isGreaterThan", f"{SEMVER} {SEMVER}", "bool", lambda a, b: a > b)
    method("isLessThan", f"{SEMVER} {SEMVER}", "bool", lambda a, b: a < b)
    method("compareTo", f"{SEMVER} {SEMVER}", "int", _order)
    for part in ("major", "minor", "patch"):
        method(part, SEMVER, "int", lambda version, part=part: getattr(version, part))


def _semver(text: str, normalise: bool) -> Semver:
    return normalised_semver(text) if normalise else parse_semver(text)


# --- addresses


def _add_addresses(library: Library) -> None:
    library.add("ip", "string", ADDRESS, _address)
    library.add("isIP", "string", "bool", lambda text: _parses(_address, text))
    library.add("ip.isCanonical", "string", "bool", lambda text: str(_address(text).address) == text)
    method = library.method
    method("family", ADDRESS, "int", lambda ip: ip.address.version)
    method("isUnspecified", ADDRESS, "bool", lambda ip: ip.address.is_unspecified)
    method("isLoopback", ADDRESS, "bool", lambda ip: ip.address.is_loopback)
    method("isLinkLocalMulticast", ADDRESS, "bool", _is_link_local_multicast)
    method("isLinkLocalUnicast", ADDRESS, "bool", lambda ip: ip.address.is_link_local)
    method("isGlobalUnicast", ADDRESS, "bool", _is_global_unicast)
    library.add("cidr", "string", NETWORK, _network)
    library.add("isCIDR", "string", "bool", lambda text: _parses(_network, text))
    method("containsIP", f"{NETWORK} string", "bool", lambda net, text: _contains(net, _address(text)))
    method("containsIP", f"{NETWORK} {ADDRESS}", "bool", _contains)
    method("containsCIDR", f"{NETWORK} string", "bool", lambda net, text: _covers(net, _network(text)))
    method("containsCIDR", f"{NETWORK} {NETWORK}", "bool", lambda net, other: _covers(net, other))
    method("ip", NETWORK, ADDRESS, lambda net: IP(net.interface.ip))
    method("prefixLength", NETWORK, "int", lambda net: net.interface.network.prefixlen)
    method("masked", NETWORK, NETWORK, lambda net: CIDR(ipaddress.ip_interface(net.interface.network)))


def _address(text: str) -> IP:
    try:
        if "%" in text:
            ipaddress.ip_address(text.partition("%")[0])
            raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
        address = ipaddress.ip_address(text)
    except ValueError:
        problem = f'ParseAddr("{text}"): unable to parse IP'
        raise EvaluationError(f'IP Address "{text}" parse error during conversion from string: {problem}') from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return IP(address)


def _network(text: str) -> CIDR:
    words = "network address parse error during conversion from string: "
    address, slash, bits = text.rpartition("/")
    try:
        if not slash or "%" in text or not re.fullmatch("0|[1-9][0-9]*", bits, re.ASCII):
            raise ValueError
        interface = ipaddress.ip_interface(f"{ipaddress.ip_address(address)}/{bits}")
    except ValueError:
        problem = "invalid prefix" if slash else "no '/'"
        raise EvaluationError(f'{words}{words}netip.ParsePrefix("{text}"): {problem}') from None
    if isinstance(interface, ipaddress.IPv6Interface) and interface.ip.ipv4_mapped is not None:
        raise EvaluationError(f'{words}IPv4-mapped IPv6 address "{text}" is not allowed')
    return CIDR(interface)


def _is_link_local_multicast(ip: IP) -> bool:
    block = "224.0.0.0/24" if ip.address.version == 4 else "ff02::/16"
    if ip.address.version == 6:
        return ip.address.packed[0] == 0xFF and ip.address.packed[1] & 0x0F == 0x02
    return ip.address in ipaddress.ip_network(block)


def _is_global_unicast(ip: IP) -> bool:
    """As Go has it: private addresses count."""
    address = ip.address
    if address.version == 4 and int(address) == 2**32 - 1:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def _contains(network: CIDR, ip: IP) -> bool:
    return ip.address.version == network.interface.version and ip.address in network.interface.network


def _covers(network: CIDR, other: CIDR) -> bool:
    mine, theirs = network.interface.network, other.interface.network
    if mine.version != theirs.version:
        return False
    return mine.overlaps(theirs) and mine.prefixlen <= theirs.prefixlen


# --- URLs


def _add_links(library: Library) -> None:
    library.add("url", "string", LINK, _link)
    library.add("isURL", "string", "bool", lambda text: _parses(_link, text))
    method = library.method
    method("getScheme", LINK, "string", lambda url: url.scheme)
    method("getHost", LINK, "string", lambda url: url.host)
    method("getHostname", LINK, "string", lambda url: _host_and_port(url.host)[0])
    method("getPort", LINK, "string", lambda url: _host_and_port(url.host)[1])
    method("getEscapedPath", LINK, "string", lambda url: url.path)
    method("getQuery", LINK, "map(string, list(string))", lambda url: dict(url.query))


def _link(text: str) -> URL:
    words = f'URL parse error during conversion from string: parse "{text}": '
    if not text:
        raise EvaluationError(f"{words}empty url")
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        raise EvaluationError(f"{words}net/url: invalid control character in URL")
    scheme, colon, rest = text.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*", scheme):
        scheme, rest = "", text
        if text.startswith(":"):
            raise EvaluationError(f"{words}missing protocol scheme")
    if (not scheme and not rest.startswith("/")) or (scheme and not rest.startswith("/")):
        raise EvaluationError(f"{words}invalid URI for request")
    return _parts(words, scheme.lower(), rest, text)


def _parts(words: str, scheme: str, rest: str, text: str) -> URL:
    rest, _, _ = rest.partition("#")
    rest, _, query = rest.partition("?")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = authority.rpartition("@")[2], slash + path
        if not re.fullmatch(r"(\[[0-9A-Fa-f:.%]*\]|[^\[\]:\s<>\"^`{|}\\]*)(:[0-9]*)?", host):
            raise EvaluationError(f'{words}invalid character " " in host name')
    if re.search("%(?![0-9A-Fa-f]{2})", rest):
        raise EvaluationError(f"{words}invalid URL escape")
    path = urllib.parse.quote(rest, safe="/!$&'()*+,;=:@-._~%[]")
    return URL(scheme, host, path, _query(query), text)


def _query(query: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in query.split("&"):
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        if re.search("%(?![0-9A-Fa-f]{2})", part):
            continue
        found.setdefault(urllib.parse.unquote_plus(key), []).append(urllib.parse.unquote_plus(value))
    return found


def _host_and_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if (colon and port.isdecimal()) or (colon and not port):
        host = name
    else:
        port = ""
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port


# --- formats

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
# The pattern, and how many characters may match it. A prefix may end with a dash.
_PATTERNS: Final = {
    "dns1123Label": (_LABEL, 63),
    "dns1123Subdomain": (_SUBDOMAIN, 253),
    "dns1035Label": (r"[a-z]([-a-z0-9]*[a-z0-9])?", 63),
    "labelValue": (rf"({_NAME})?", 63),
    "uuid": (r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", 36),
}


def _add_formats(library: Library) -> None:
    formats = _formats()
    for name, made in formats.items():
        library.add(f"format.{name}", "", "kubernetes.NamedFormat", lambda made=made: made)
    library.add("format.named", "string", "optional_type", lambda name: _optional(formats.get(name)))
    library.method("validate", "kubernetes.NamedFormat string", "optional_type", _validate)


def _formats() -> dict[str, Format]:
    tests: dict[str, Callable[[str], bool]] = {
        "qualifiedName": _is_qualified_name,
        "uri": lambda text: _parses(_link, text),
        "byte": _is_base64,
        "date": lambda text: _is_time(text, "%Y-%m-%d"),
        "datetime": _is_datetime,
    }
    for name, (pattern, longest) in _PATTERNS.items():
        tests[name] = _matching(pattern, longest, is_prefix=False)
        if name.startswith("dns"):
            tests[f"{name}Prefix"] = _matching(pattern, longest, is_prefix=True)
    return {name: Format(name, test) for name, test in tests.items()}


def _optional(value: Any) -> Optional:
    return NONE if value is None else Optional(True, value)


def _validate(wanted: Format, text: str) -> Optional:
    """What is wrong with a text, as a list; nothing for a good one."""
    return NONE if wanted.accepts(text) else Optional(True, [f"does not match the {wanted.name} format"])


def _matching(pattern: str, longest: int, *, is_prefix: bool) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)

    def accepts(text: str) -> bool:
        # A prefix is completed by a name: a dash at its end is followed by something.
        whole = text[:-1] + "a" if is_prefix and len(text) > 1 and text.endswith("-") else text
        return len(text) <= longest and compiled.fullmatch(whole) is not None

    return accepts


def _is_qualified_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not re.fullmatch(_SUBDOMAIN, prefix)):
        return False
    return len(name) <= 63 and re.fullmatch(_NAME, name) is not None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _is_time(text: str, layout: str) -> bool:
    try:
        return datetime.strptime(text, layout).strftime(layout) == text
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    found = re.fullmatch(r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", text, re.ASCII)
    return found is not None and _is_time(found[1], "%Y-%m-%d") and _is_time(found[2], "%H:%M:%S")
