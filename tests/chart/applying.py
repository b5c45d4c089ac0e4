"""The chart on a real API server: applied with kubectl as docs/install.md says, and Berth run as its service account.

Berth runs as a process here, as there are no kubelets: with the configuration that the chart renders, and with a
kubeconfig that holds a token of the chart's service account and nothing else.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from chart.needed import Right
from chart.rendering import NAMESPACE, SERVED, Rendered, Values, parse, template
from control_plane.berth_process import BerthProcess
from control_plane.launcher import ControlPlane
from control_plane.process import free_port

ACCOUNT = "berth"
UNREACHABLE = "192.0.2.1"  # an address for documentation
RIGHTS_SECONDS = 60.0
# Who asks for what and what comes of it, without bodies.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"


class AuditedPlane(ControlPlane):
    """A control plane whose API server writes every request to `audit_log`, an audit.k8s.io/v1 Event a line."""

    @property
    def audit_log(self) -> Path:
        return self.folder / "requests.log"

    def _api_server_command(self) -> list[str]:
        policy = self.folder / "requests-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        options = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        return [*super()._api_server_command(), *options]


def apply_rights(plane: ControlPlane) -> Rendered:
    """What the chart makes for replicas that run elsewhere: the account, its rights, the peering object."""
    rendered = parse(template({}, "--api-versions", SERVED))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ClusterKopfPeering")
    wanted = [manifest for kind in kinds for manifest in rendered.all(kind)]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([namespace, *wanted]))
    wait_for_rights(plane)
    return rendered


def apply_in_two_steps(plane: ControlPlane, values: Values) -> Rendered:
    """The kinds first, and the rest when they are served."""
    rendered = parse(template(values, "--include-crds", "--api-versions", SERVED))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    plane.kubectl("apply", "-f", "-", input=json.dumps(namespace))
    kinds = yaml.safe_dump_all(rendered.all("CustomResourceDefinition"))
    plane.kubectl("apply", "-f", "-", input=kinds)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", "-", input=kinds)
    rest = [manifest for manifest in rendered.manifests if manifest["kind"] != "CustomResourceDefinition"]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(rest))
    wait_for_rights(plane)
    return rendered


def wait_for_rights(plane: ControlPlane) -> None:
    """The API server learns of roles by a watch of its own, a moment after they are made."""
    wait_allowed(plane, USER, "create", "pods", "--subresource=binding", "-A")


def wait_allowed(plane: ControlPlane, user: str, *what: str) -> None:
    """What: as `kubectl auth can-i` is asked."""
    deadline = time.monotonic() + RIGHTS_SECONDS
    while plane.kubectl("auth", "can-i", *what, f"--as={user}", "--quiet", check=False).returncode != 0:
        assert time.monotonic() < deadline, "the API server has not learnt of the role"


def wait_for_rights_lost(plane: ControlPlane, verb: str, resource: str) -> None:
    """The same, of a role that grants less from now on."""
    deadline = time.monotonic() + RIGHTS_SECONDS
    while plane.kubectl("auth", "can-i", verb, resource, f"--as={USER}", "-A", "--quiet", check=False).returncode == 0:
        assert time.monotonic() < deadline, "the API server has not learnt that the role grants less"


def account_token(plane: ControlPlane, account: str = ACCOUNT) -> str:
    """A token of a service account of the release's namespace, by TokenRequest."""
    return plane.kubectl("create", "token", account, "-n", NAMESPACE, "--duration=1h").stdout.strip()


def write_kubeconfig(path: Path, url: str, token: str) -> Path:
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "chart",
        "clusters": [{"name": "chart", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "account", "user": {"token": token}}],
        "contexts": [{"name": "chart", "context": {"cluster": "chart", "user": "account"}}],
    }
    path.write_text(json.dumps(configuration))
    return path


def berth_as_account(
    plane: ControlPlane, chart: Rendered, folder: Path, *arguments: str, url: str | None = None
) -> BerthProcess:
    """Berth with the configuration of the chart and the rights of its service account; `url`: where it finds the API
    server, if elsewhere."""
    kubeconfig = write_kubeconfig(folder / "account.kubeconfig", url or plane.url, account_token(plane))
    configuration = folder / "berth.yaml"
    configuration.write_text(yaml.safe_dump(chart.configuration))
    log = folder / "berth.log"
    # Several may run at a time, on one machine, and nobody has to reach this address.
    own = [f"--explain-address=127.0.0.1:{free_port()}", f"--advertise-address={UNREACHABLE}"]
    if "webhookAddress" in chart.configuration:
        own.append(f"--webhook-address=127.0.0.1:{free_port()}")
    return BerthProcess(kubeconfig, f"--config={configuration}", *own, *arguments, log=log, standalone=False)


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked the API server for; `resource` with its subresource behind a slash, "" for other paths."""

    verb: str
    group: str
    resource: str
    status: int
    uri: str


class Asked:
    """What a user has asked the API server for since this was made: rights that were used, and rights that were missed.

    A right is (verb, API group, resource). Each look reads on where the last one has ended.
    """

    def __init__(self, audit_log: Path, user: str) -> None:
        self._log = audit_log
        self._user = user
        self._offset = audit_log.stat().st_size
        self.used: set[Right] = set()
        self.forbidden: set[Right] = set()

    def look(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._offset)
            whole, newline, _ = log.read().rpartition(b"\n")  # the last line may be only half written yet
        self._offset += len(whole + newline)
        for event in map(json.loads, whole.splitlines()):
            if event["user"].get("username") == self._user:
                self._note(_request(event))

    def _note(self, request: Request) -> None:
        right = (request.verb, request.group, request.resource or request.uri)
        if request.status == 403:
            self.forbidden.add(right)
        elif request.resource and request.status < 400:
            self.used.add(right)


def _request(event: dict[str, object]) -> Request:
    reference = event.get("objectRef")
    status = event.get("responseStatus")
    assert isinstance(status, dict)
    if not isinstance(reference, dict):
        return Request(str(event["verb"]), "", "", int(status["code"]), str(event["requestURI"]))
    parts = [str(reference[part]) for part in ("resource", "subresource") if part in reference]
    return Request(
        str(event["verb"]),
        str(reference.get("apiGroup", "")),
        "/".join(parts),
        int(status["code"]),
        str(event["requestURI"]),
    )
