"""Containers of a pod: requests and limits, host ports, images, and the node features that they require.

Init containers with restartPolicy Always (sidecars) run as long as the pod does: of the init containers only they use
host ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from .fields import Body, FieldError, as_object, read_choice, read_flag, read_integer, read_items, read_text
from .resources import Container, read_container_resources

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
ANY_ADDRESS: Final = "0.0.0.0"

_NONE: Final[frozenset[str]] = frozenset()
RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that a pod uses on its node's address `ip`; 0.0.0.0 stands for all addresses of the node."""

    ip: str
    protocol: str
    port: int


class Containers(NamedTuple):
    """All containers of a pod; `images` has those of init containers first, repetitions included."""

    main: list[Container]
    init: list[Container]
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    restart_all: bool


def read_containers(spec: Body) -> Containers:
    """The containers and init containers in a pod's spec; paths in errors start at the pod."""
    ports: list[HostPort] = []
    images: list[str] = []
    restart_all = False
    found: list[list[Container]] = []
    for name in ("initContainers", "containers"):
        containers: list[Container] = []
        found.append(containers)
        try:
            for item in read_items(spec, name):
                body = as_object(item)
                sidecar = read_text(body, "restartPolicy") == "Always"
                if image := read_text(body, "image"):
                    images.append(normalised_image(image))
                if body.get("ports") is not None and (sidecar or name == "containers"):
                    _read_ports(body, ports)
                if body.get("restartPolicyRules") is not None:
                    restart_all |= _restarts_all(body)
                requests, limits = read_container_resources(body)
                containers.append(Container(read_text(body, "name"), requests, limits, sidecar))
        except FieldError as error:
            # The path of an error about the list itself already has the name of the list.
            where = "spec" if error.path == name else f"spec.{name}[{len(containers)}]"
            raise error.within(where) from None
    return Containers(found[1], found[0], tuple(ports), tuple(images), restart_all)


def extended_resources(containers: Containers) -> frozenset[str]:
    """The names with a domain among the resources that any container requests or limits."""
    named: list[str] = []
    for container in (*containers.main, *containers.init):
        for amounts in (container.requests, container.limits):
            for name in amounts:
                if "/" in name:
                    named.append(name)  # noqa: PERF401 - most pods have none: comprehensions would be slower
    return frozenset(named) if named else _NONE


def read_required_features(spec: Body, containers: Containers) -> tuple[str, ...]:
    """The features that a node must declare to run this pod."""
    required = [RESTART_ALL_CONTAINERS] if containers.restart_all else []
    host_network, host_users = read_flag(spec, "hostNetwork"), read_flag(spec, "hostUsers")
    if host_network and not host_users and spec.get("hostUsers") is not None:
        required.append(USER_NAMESPACES_HOST_NETWORK)
    return tuple(required)


@lru_cache(maxsize=4096)
def normalised_image(name: str) -> str:
    """The image name as nodes report it: with a tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _read_ports(container: Body, ports: list[HostPort]) -> None:
    for index, item in enumerate(read_items(container, "ports")):
        try:
            body = as_object(item)
            if port := read_integer(body, "hostPort", 0, 65535, 0):
                ip = read_text(body, "hostIP") or ANY_ADDRESS
                ports.append(HostPort(ip, read_choice(body, "protocol", PROTOCOLS, "TCP"), port))
        except FieldError as error:
            raise error.within(f"ports[{index}]") from None


def _restarts_all(container: Body) -> bool:
    actions = []
    for index, item in enumerate(read_items(container, "restartPolicyRules")):
        try:
            actions.append(read_text(as_object(item), "action"))
        except FieldError as error:
            raise error.within(f"restartPolicyRules[{index}]") from None
    return "RestartAllContainers" in actions
