"""The options: what everything in Berth that can be chosen at its start has been set to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.cluster.leadership import LIFETIME_SECONDS
from berth.configuration.gates import DEFAULTS
from berth.policy.addresses import ANY_HOST
from berth.serving.addresses import DEFAULT_HTTPS


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen when Berth is started; the defaults are those of the settings."""

    kubeconfig: str | None = None
    context: str | None = None
    http_address: str = ""
    seed: int | None = None
    resync_seconds: float = 300.0
    built_in_policy: bool = True
    standalone: bool = False
    peering_name: str = "berth"
    peering_lifetime_seconds: int = LIFETIME_SECONDS
    https_address: str = DEFAULT_HTTPS
    tls_cert_file: str | None = None
    tls_private_key_file: str | None = None
    debug_endpoints: bool = False
    explain_address: str = ""
    explain_service: str = ""
    explain_tls_cert_file: str | None = None
    explain_tls_private_key_file: str | None = None
    webhook_address: str = ""
    webhook_service: str = ""
    webhook_tls_cert_file: str | None = None
    webhook_tls_private_key_file: str | None = None
    advertise_address: str = ""
    remembered_decisions: int = 1000
    log_level: str = "info"
    log_format: str = "text"
    reserved_scheduler_names: tuple[str, ...] = ("default-scheduler",)
    protected_namespaces: tuple[str, ...] = ("kube-system",)
    trusted_policies: tuple[str, ...] = ()
    extender_hosts: tuple[str, ...] = (ANY_HOST,)
    extender_networks: tuple[str, ...] = ()
    installation: str = ""
    feature_gates: Mapping[str, bool] = field(default_factory=lambda: dict(DEFAULTS))
