"""etcd and kube-apiserver on free loopback ports, with data in memory where the machine has a /dev/shm.

    with ControlPlane() as control_plane:
        control_plane.kubectl("apply", "-f", "crds/")
        BerthProcess(control_plane.kubeconfig, ...)

The administrator's token is in group system:masters. RBAC is on. Two admission plugins are off because their
controllers do not run here: ServiceAccount (pods need no account) and TaintNodesByCondition (new nodes are not
tainted). kube-apiserver makes its serving certificate itself; the key that it signs account tokens with is an elliptic
one, which takes nothing but random bytes.

It has the credentials of a front proxy, for aggregated APIs: an APIService whose Service is of type ExternalName
`localhost` reaches a process on this machine. With `routes_by_endpoints` it resolves other Services itself, by their
EndpointSlices, which no proxy does here.

write_kubeconfig() makes credentials of one of the `USERS`, who are administrators as well, for another address of the
same server. With `audit` the API server writes who has bound which pod when (`binds`).

stop_api_server() and start_api_server() are an outage: same port, same data. back_up() keeps etcd's data, and restore()
has etcd go back to them. start_scheduler() runs kube-scheduler
beside it. Everything ends with stop(), and at the latest with this process (process.py). Not safe for use from two
threads at once.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

from berth.sim.server.certificates import make_credentials
from berth.sim.server.front_proxy import CLIENT, EXTRA, GROUP, USER
from control_plane.process import Process, ProgramFailed, free_port, http_get
from control_plane.programs import MissingPrograms, Programs, find_programs

MEMORY_FOLDER = Path("/dev/shm")
FOLDER_PREFIX = "berth-control-plane-"
OWNER_FILE = "owner"
ABANDONED_SECONDS = 60.0
MEMORY_NEEDED_BYTES = 2 * 1024**3
START_SECONDS = 120.0
STOP_SECONDS = 20.0
PORT_ATTEMPTS = 5
PORT_TAKEN = "address already in use"
UNSERVED_ADMISSION = ("ServiceAccount", "TaintNodesByCondition")

# An ECPrivateKey (RFC 5915) on the curve prime256v1, around 32 bytes of key.
KEY_PREFIX = bytes.fromhex("30310201010420")
KEY_SUFFIX = bytes.fromhex("a00a06082a8648ce3d030107")


Result = TypeVar("Result")


CREDENTIAL = "authentication.kubernetes.io/credential-id"
USERS = tuple(f"replica-{number}" for number in range(5))
# What is written about: every bind, when it arrives and when it is answered.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Bind:
    """A bind, as the API server was asked for it."""

    received: datetime
    user: str
    pod: str  # namespace/name
    status: int


class KubectlFailed(Exception):
    """kubectl answered with an error; the text carries the command and what it said."""


class ControlPlane:
    """A control plane; see the module's text. `logs`: folder that keeps the logs after stop(). `without_admission`:
    further admission plugins that are off.
    """

    def __init__(
        self,
        programs: Programs | None = None,
        *,
        logs: Path | None = None,
        audit: bool = False,
        without_admission: Sequence[str] = (),
        routes_by_endpoints: bool = False,
    ) -> None:
        self._audit = audit
        self._routes_by_endpoints = routes_by_endpoints
        self._without_admission = (*UNSERVED_ADMISSION, *without_admission)
        self._tokens = {user: secrets.token_hex(16) for user in USERS}
        self._programs = programs or find_programs()
        self._folder: Path | None = None
        self._owner: TextIO | None = None
        self._kept_logs = logs
        self._etcd_port = 0
        self._port = 0
        self._etcd: Process | None = None
        self._api_server: Process | None = None
        self._scheduler: Process | None = None
        self.scheduler_url = ""  # where kube-scheduler serves its health and metrics
        self.token = secrets.token_hex(16)

    # -- what users of it need ---------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """A file with the administrator's credentials."""
        return self.folder / "admin.kubeconfig"

    @property
    def folder(self) -> Path:
        """Where everything lies that goes away with stop()."""
        if self._folder is None:
            raise RuntimeError("the control plane is not started: call start()")
        return self._folder

    @property
    def logs(self) -> Path:
        return self._kept_logs or self.folder / "logs"

    def kubectl(
        self, *arguments: str, input: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; raises KubectlFailed unless `check` is false."""
        return run_kubectl(self._programs.kubectl, self.kubeconfig, self.folder, arguments, input, check)

    def write_kubeconfig(self, user: str, path: Path, *, port: int) -> Path:
        """Credentials of this user, for the API server behind this port of the loopback interface."""
        _write_secret(path, _kubeconfig(f"https://127.0.0.1:{port}", self._tokens[user]))
        return path

    @property
    def port(self) -> int:
        return self._port

    @property
    def pids(self) -> list[int]:
        """The processes of etcd and kube-apiserver."""
        return [process.pid for process in (self._etcd, self._api_server) if process is not None]

    def binds(self) -> list[Bind]:
        """Every bind that the API server has answered, in the order of their arrival; needs `audit`."""
        whole, _, _ = self._audit_log.read_text().rpartition("\n")  # the last line may be only half written yet
        lines = map(json.loads, whole.splitlines())
        found = [_read_bind(line) for line in lines if line["stage"] == "ResponseComplete"]
        return sorted(found, key=lambda bind: bind.received)

    def apply_crds(self, folder: Path) -> None:
        """Apply every manifest of `folder` and wait until the API server serves the kinds."""
        self.kubectl("apply", "-f", str(folder))
        self.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(folder))

    def tails(self) -> str:
        """The ends of all logs, for a failure's report."""
        present = [process for process in (self._etcd, self._api_server, self._scheduler) if process is not None]
        return "\n\n".join(process.tail() for process in present)

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        home = _data_home()
        _sweep(home)
        self._folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=home))
        try:
            self._owner = _own(self._folder)
            self.logs.mkdir(parents=True, exist_ok=True)
            self._write_credentials()
            _retry_ports(self._start_etcd)
            _retry_ports(self._start_api_server_anywhere)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self.stop_scheduler()
        for process in (self._api_server, self._etcd):
            if process is not None:
                process.stop(STOP_SECONDS)
        self._api_server = self._etcd = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._owner is not None:
            self._owner.close()
            self._owner = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop_api_server(self) -> None:
        """The API server goes away; etcd keeps its data."""
        if self._api_server is not None:
            self._api_server.stop(STOP_SECONDS)

    def start_api_server(self) -> None:
        """It comes back, on the same port, with the same data and certificate."""
        if self._api_server is None:
            raise RuntimeError("the control plane is not started: call start()")
        self._api_server.start()
        self._api_server.wait_ready(self._api_server_answers, START_SECONDS)

    def back_up(self) -> None:
        """Keep etcd's data as they are now, for `restore`. A short outage."""
        self._exchange_data(_copy_over)

    def restore(self) -> None:
        """etcd goes back to the backup, as when it is restored from one. A short outage."""
        self._exchange_data(lambda data, backup: _copy_over(backup, data))

    def _exchange_data(self, exchange: Callable[[Path, Path], None]) -> None:
        if self._etcd is None:
            raise RuntimeError("the control plane is not started: call start()")
        self.stop_api_server()
        self._etcd.stop(STOP_SECONDS)
        exchange(self.folder / "etcd", self.folder / "etcd-backup")
        self._etcd.start()
        self._etcd.wait_ready(lambda: http_get(f"http://127.0.0.1:{self._etcd_port}/health")[0] == 200, START_SECONDS)
        self.start_api_server()

    def start_scheduler(
        self,
        configuration: Mapping[str, Any] | None = None,
        *,
        gates: Mapping[str, bool] | None = None,
    ) -> Process:
        """kube-scheduler with our credentials, no leader election and no client-side limit that counts.

        `configuration` is laid over that, key by key at the top level of a KubeSchedulerConfiguration; `gates` are
        feature gates.
        """
        if self._programs.kube_scheduler is None:
            raise MissingPrograms("kube-scheduler is not there: run `make control-plane`, without KUBEBUILDER_ASSETS")
        if self._scheduler is not None and self._scheduler.running:
            raise RuntimeError("kube-scheduler is running already: call stop_scheduler()")
        configuration_file = self.folder / "kube-scheduler.json"
        configuration_file.write_text(json.dumps({**self._scheduler_defaults(), **(configuration or {})}))
        program = str(self._programs.kube_scheduler)
        chosen = ",".join(f"{gate}={str(value).lower()}" for gate, value in (gates or {}).items())
        arguments = [f"--feature-gates={chosen}"] if chosen else []
        return _retry_ports(lambda: self._start_scheduler(program, configuration_file, arguments))

    def stop_scheduler(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop(STOP_SECONDS)
            self._scheduler = None

    # -- the programs ------------------------------------------------------------------------------------------------

    def _start_etcd(self) -> None:
        self._etcd_port, peer_port = free_port(), free_port()
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{peer_port}"
        self._etcd = self._process(
            "etcd",
            str(self._programs.etcd),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={4 * 1024**3}",
            "--log-level=warn",
        )
        self._etcd.start()
        self._etcd.wait_ready(lambda: http_get(f"{client}/health")[0] == 200, START_SECONDS)

    def _start_api_server_anywhere(self) -> None:
        self._port = free_port()
        self._write_kubeconfig()
        self._api_server = self._process("kube-apiserver", *self._api_server_command())
        self.start_api_server()

    def _api_server_command(self) -> list[str]:
        key = self.folder / "account.key"
        return [
            str(self._programs.kube_apiserver),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--disable-admission-plugins={','.join(self._without_admission)}",
            "--endpoint-reconciler-type=none",  # it would publish our address, and refuses a loopback one
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            "--delete-collection-workers=8",
            "--profiling=false",
            *self._front_proxy_arguments(),
            *self._audit_arguments(),
        ]

    def _front_proxy_arguments(self) -> list[str]:
        return [
            f"--requestheader-client-ca-file={self.folder / 'front-proxy-ca.crt'}",
            f"--requestheader-allowed-names={CLIENT}",
            f"--requestheader-username-headers={USER}",
            f"--requestheader-group-headers={GROUP}",
            f"--requestheader-extra-headers-prefix={EXTRA}",
            f"--proxy-client-cert-file={self.folder / 'front-proxy.pem'}",
            f"--proxy-client-key-file={self.folder / 'front-proxy.pem'}",
            *(["--enable-aggregator-routing"] if self._routes_by_endpoints else []),
        ]

    def _audit_arguments(self) -> list[str]:
        if not self._audit:
            return []
        return [f"--audit-policy-file={self.folder / 'audit-policy.json'}", f"--audit-log-path={self._audit_log}"]

    @property
    def _audit_log(self) -> Path:
        return self.folder / "audit.log"

    def _start_scheduler(self, program: str, configuration_file: Path, arguments: Sequence[str]) -> Process:
        port = free_port()
        self._scheduler = self._process(
            "kube-scheduler",
            program,
            f"--config={configuration_file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--authorization-always-allow-paths=/readyz,/metrics",
            *arguments,
        )
        self.scheduler_url = f"https://127.0.0.1:{port}"
        self._scheduler.start()
        self._scheduler.wait_ready(lambda: http_get(f"{self.scheduler_url}/readyz")[0] == 200, START_SECONDS)
        return self._scheduler

    def _scheduler_defaults(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 5000, "burst": 5000},
        }

    def _process(self, name: str, *command: str) -> Process:
        return Process(name, command, self.logs / f"{name}.log")

    def _api_server_answers(self) -> bool:
        """Ready, and the namespace that every test uses is made (a controller inside makes it, a little later)."""
        paths = ("/readyz", "/api/v1/namespaces/default")
        return all(http_get(self.url + path, self.token)[0] == 200 for path in paths)

    # -- files -------------------------------------------------------------------------------------------------------

    def _write_credentials(self) -> None:
        users = {"admin": self.token, **self._tokens}
        lines = [f'{token},{user},{user},"system:masters"\n' for user, token in users.items()]
        _write_secret(self.folder / "tokens.csv", "".join(lines))
        (self.folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
        key = base64.encodebytes(KEY_PREFIX + b"\x01" + secrets.token_bytes(31) + KEY_SUFFIX).decode()
        pem = f"-----BEGIN EC PRIVATE KEY-----\n{key}-----END EC PRIVATE KEY-----\n"
        _write_secret(self.folder / "account.key", pem)
        front_proxy = make_credentials()
        (self.folder / "front-proxy-ca.crt").write_text(front_proxy.authority)
        _write_secret(self.folder / "front-proxy.pem", front_proxy.client.decode())

    def _write_kubeconfig(self) -> None:
        _write_secret(self.kubeconfig, _kubeconfig(self.url, self.token))


def _copy_over(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _read_bind(line: dict[str, Any]) -> Bind:
    """Of accounts, which several may use at once, the token tells who it was."""
    reference, user = line["objectRef"], line["user"]
    return Bind(
        datetime.fromisoformat(line["requestReceivedTimestamp"]),
        (user.get("extra") or {}).get(CREDENTIAL, [user["username"]])[0],
        f"{reference['namespace']}/{reference['name']}",
        line["responseStatus"]["code"],
    )


def _kubeconfig(url: str, token: str) -> str:
    """JSON is YAML."""
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
    }
    return json.dumps(configuration, indent=2)


def run_kubectl(
    program: Path, kubeconfig: Path, folder: Path, arguments: Sequence[str], input: str | None, check: bool
) -> subprocess.CompletedProcess[str]:
    """kubectl with its cache in `folder`; raises KubectlFailed unless `check` is false."""
    command = [str(program), "--kubeconfig", str(kubeconfig), *arguments]
    environment = {**os.environ, "HOME": str(folder), "KUBECACHEDIR": str(folder / "kubectl")}
    done = subprocess.run(command, input=input, capture_output=True, text=True, env=environment)
    if check and done.returncode != 0:
        said = done.stderr + done.stdout
        raise KubectlFailed(f"kubectl {' '.join(arguments)} ended with {done.returncode}: {said}")
    return done


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _data_home() -> Path:
    """Memory, if there is enough of it (containers often have 64 MiB), else the usual place for temporary files."""
    if os.access(MEMORY_FOLDER, os.W_OK) and shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_NEEDED_BYTES:
        return MEMORY_FOLDER
    return Path(tempfile.gettempdir())


def _own(folder: Path) -> TextIO:
    """Mark `folder` as in use for as long as the file is open, that is, at most as long as we live."""
    owner = (folder / OWNER_FILE).open("w")
    fcntl.flock(owner, fcntl.LOCK_EX)
    return owner


def _sweep(home: Path) -> None:
    """Remove what runs that were killed have left in memory."""
    for owner in home.glob(f"{FOLDER_PREFIX}*/{OWNER_FILE}"):
        with contextlib.suppress(OSError), owner.open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - owner.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(owner.parent, ignore_errors=True)


def _retry_ports(start: Callable[[], Result]) -> Result:
    """A port that was free may be taken before its program gets to it: try again with others."""
    for _ in range(PORT_ATTEMPTS - 1):
        try:
            return start()
        except ProgramFailed as error:
            if PORT_TAKEN not in str(error):
                raise
    return start()
