"""Where Berth listens: HTTPS where others can reach it, plain HTTP on the loopback interface only."""

import ipaddress
import socket
from dataclasses import dataclass

DEFAULT_HTTPS = "0.0.0.0:10259"
EXAMPLE_HTTP = "127.0.0.1:10261"
BACKLOG = 128


class BadAddress(ValueError):
    """An invalid address; str() says why."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host that is an IP address, a name, or "" for every interface; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_https_address(text: str) -> ListenAddress:
    """`0.0.0.0:10259`, `[::]:10259`, `:10259` or `localhost:10259`. BadAddress for anything else."""
    return _parse(text, DEFAULT_HTTPS)


def parse_http_address(text: str) -> ListenAddress:
    """`127.0.0.1:10261`, `[::1]:10261` or `localhost:10261`. BadAddress for anything else."""
    address = _parse(text, EXAMPLE_HTTP)
    if not _is_loopback(address.host):
        raise BadAddress(
            f'"{text}" is not on the loopback interface; this is plain HTTP without encryption, so use 127.0.0.1, '
            f"[::1] or localhost, and --https-address for everybody else"
        )
    return address


def _parse(text: str, example: str) -> ListenAddress:
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    fits = not any(letter.isspace() or letter in "[]/@" for letter in host) and (":" in host) is bracketed
    if not colon or not fits or not port.isascii() or not port.isdigit() or int(port[:6]) > 65535:
        raise BadAddress(f'"{text}" is not an address; write host:port, such as {example}')
    return ListenAddress(host, int(port))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(address: ListenAddress) -> socket.socket:
    """Returns a listening socket that does not block. Raises OSError if the address is in use or not ours."""
    info = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, place = info[0]
    if not address.host and socket.has_dualstack_ipv6():
        listener = socket.create_server(
            ("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
        )
    else:
        listener = socket.create_server(place[:2], family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
