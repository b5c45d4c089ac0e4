"""Which addresses an extender may have. Settings of the process decide, not the authors of policies.

    hosts       patterns for the host of a urlPrefix; "*" is any host
    networks    networks that are off by default and allowed here

An author of policies chooses a URL that is then asked from inside Berth's pod. So the addresses that mean something
else from there than from outside are off: the pod itself (loopback, unspecified), the machine and the cloud behind it
(link-local, metadata), and what is nobody's address (multicast, reserved).

An IPv6 address that stands for an IPv4 one (mapped, compatible, NAT64, 6to4, Teredo) is judged by that one as well. The
host of a policy is judged when the policy is applied; the address that it resolves to when a connection is made, every
time, because a name may resolve to something else each time.
"""

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from berth.policy.wording import show

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ANY_HOST = "*"
HOSTS_SETTING, NETWORKS_SETTING = "--extender-hosts", "--extender-networks"
_PATTERN = re.compile(r"(\*\.)?[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*")
_NUMERIC = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)

# The first that an address is in names it.
_OFF: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (kind, tuple(ip_network(text) for text in texts))
    for kind, texts in (
        ("an unspecified address", ("0.0.0.0/8", "::/128")),
        ("a loopback address", ("127.0.0.0/8", "::1/128")),
        # Of the large clouds, as far as they are not link-local.
        (
            "a metadata address",
            ("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128"),
        ),
        ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
        ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
        ("a reserved address", ("240.0.0.0/4",)),
    )
)
_EMBEDDING = tuple(IPv6Network(text) for text in ("::/96", "64:ff9b::/96", "64:ff9b:1::/48"))


def is_host_pattern(text: str) -> bool:
    """Whether it is a valid entry of `hosts`: "*", an address, a name, or "*." and the end of names."""
    return text == ANY_HOST or _literal(text) is not None or (len(text) <= 253 and bool(_PATTERN.fullmatch(text)))


@dataclass(frozen=True, slots=True)
class ExtenderAddresses:
    """What the process allows; see the module's text. The defaults are those of the settings."""

    hosts: tuple[str, ...] = (ANY_HOST,)
    networks: tuple[Network, ...] = ()

    def host_problem(self, host: str) -> str:
        """Why an extender may not have this host, "" where it may as far as can be told without resolving it."""
        if ANY_HOST not in self.hosts and not self.names(host):
            return f"the host {show(host)} is not allowed: {HOSTS_SETTING} of the operator has none that matches"
        literal = _literal(host)
        if literal is not None:
            return self.address_problem(literal)
        name = _plain(host)
        return self.address_problem("127.0.0.1") if name == "localhost" or name.endswith(".localhost") else ""

    def address_problem(self, address: Address | str) -> str:
        """Why no connection may be made to this address, "" where it may."""
        given = address if isinstance(address, IPv4Address | IPv6Address) else ip_address(address.partition("%")[0])
        for form in _forms(given):
            kind = _kind_off(form)
            if kind and not any(form in network for network in self.networks):
                return f"{kind} is not allowed: {NETWORKS_SETTING} of the operator has no network with it"
        return ""

    def names(self, host: str) -> bool:
        """Whether an entry other than "*" matches the host: then its owner has vouched for the name itself."""
        literal, name = _literal(host), _plain(host)
        for pattern in self.hosts:
            if literal is not None:
                if _literal(pattern) == literal:
                    return True
            elif pattern == name or (pattern.startswith("*.") and name.endswith(pattern[1:]) and name != pattern[2:]):
                return True
        return False


EVERYWHERE = ExtenderAddresses(networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")


def _literal(host: str) -> Address | None:
    """The address that the host is written as, in any form that the C library reads; None for a name."""
    text = host.removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        return ip_address(text)
    except ValueError:
        pass
    if not _NUMERIC.fullmatch(text):
        return None
    try:
        return IPv4Address(socket.inet_aton(text.removesuffix(".")))
    except OSError:
        return None


def _forms(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 addresses that it stands for; of a mapped one that alone, which is what is reached."""
    if isinstance(address, IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    address = IPv6Address(int(address))  # without the scope
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if int(address) > 1 and any(address in network for network in _EMBEDDING):  # :: and ::1 are no IPv4 addresses
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _kind_off(address: Address) -> str:
    for kind, networks in _OFF:
        if any(address in network for network in networks):
            return kind
    return ""
