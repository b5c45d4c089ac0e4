"""The table of settings: the one place that says what can be chosen, what is taken, and what it means.

Flags, variables, the file and its comments, the documentation, error messages and what `/configz` shows are made from
these rows. A row's name is a field of `Options`, where its default is.
"""

from dataclasses import dataclass

from berth.cluster.leadership import LONGEST_LIFETIME_SECONDS, SHORTEST_LIFETIME_SECONDS
from berth.configuration.gates import GATES
from berth.configuration.options import Options
from berth.configuration.values import (
    Address,
    Choice,
    Gates,
    HostPatterns,
    Installation,
    IpAddress,
    Listed,
    Networks,
    ObjectName,
    ServiceName,
    SettingKind,
    Switch,
    Text,
    Whole,
)
from berth.serving.logs import FORMATS, LEVELS

PREFIX = "BERTH_"  # of every variable
_DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Setting:
    """`metavar` is its value in the help; `unset` says what happens where the default is that nothing is chosen."""

    name: str
    kind: SettingKind
    text: str
    metavar: str = ""
    unset: str = ""

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.name.upper()}"

    @property
    def key(self) -> str:
        """Of the file."""
        first, *others = self.name.split("_")
        return first + "".join(word.capitalize() for word in others)

    @property
    def default(self) -> object:
        value: object = getattr(_DEFAULTS, self.name)
        return value

    @property
    def default_words(self) -> str:
        """The default, for people."""
        if isinstance(self.kind, Gates):
            return "each as documented"
        if self.default is None:
            return self.unset
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        if isinstance(self.kind, Listed):
            return self.kind.to_text(self.default)
        return str(self.kind.to_yaml(self.default)) or "none"


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "kubeconfig",
        Text("file"),
        "credentials of the cluster; a file as kubectl's",
        "FILE",
        "$KUBECONFIG, ~/.kube/config, the pod's service account",
    ),
    Setting("context", Text("name"), "context of the kubeconfig", "NAME", "its current one"),
    Setting("standalone", Switch(), "run as the only replica: nobody is asked who leads"),
    Setting(
        "peering_name", ObjectName(), "the ClusterKopfPeering object by which replicas elect who schedules", "NAME"
    ),
    Setting(
        "peering_lifetime_seconds",
        Whole(SHORTEST_LIFETIME_SECONDS, LONGEST_LIFETIME_SECONDS),
        "how long a replica that says nothing counts as alive; then the others take over. The same for all replicas",
        "N",
    ),
    Setting(
        "https_address",
        Address(),
        "health, metrics and what else is served over HTTPS; all but health needs a token",
        "HOST:PORT",
    ),
    Setting(
        "http_address",
        Address(loopback=True),
        "the same over plain HTTP, on the loopback interface only",
        "HOST:PORT",
    ),
    Setting(
        "tls_cert_file",
        Text("file"),
        "certificate of the HTTPS server, PEM; goes with the private key",
        "FILE",
        "one made in memory at each start",
    ),
    Setting(
        "tls_private_key_file",
        Text("file"),
        "private key of the HTTPS server, PEM; goes with the certificate",
        "FILE",
        "one made in memory at each start",
    ),
    Setting("debug_endpoints", Switch(), "serve /debug/cache and /debug/queue, too: they name every node and pod"),
    Setting(
        "explain_address",
        Address(),
        "the API of explanations (kubectl get why), over HTTPS; for the API server, which passes requests on",
        "HOST:PORT",
    ),
    Setting(
        "explain_service",
        ServiceName(),
        "the Service by which the API server finds the API of explanations: the leader keeps its EndpointSlice, and "
        "the caBundle of the APIService unless a certificate is given",
        "NAMESPACE/NAME",
    ),
    Setting(
        "explain_tls_cert_file",
        Text("file"),
        "certificate of the API of explanations, PEM; goes with the private key",
        "FILE",
        "one made in memory at each start, that the APIService is told to trust",
    ),
    Setting(
        "explain_tls_private_key_file",
        Text("file"),
        "private key of the API of explanations, PEM; goes with the certificate",
        "FILE",
        "one made in memory at each start",
    ),
    Setting(
        "webhook_address",
        Address(),
        "the validating webhook of policies, over HTTPS; for the API server, which asks it at kubectl apply",
        "HOST:PORT",
    ),
    Setting(
        "webhook_service",
        ServiceName(),
        "the Service by which the API server finds the webhook: the leader keeps its EndpointSlice, and the caBundle "
        "of ValidatingWebhookConfiguration policies.berth.dev unless a certificate is given",
        "NAMESPACE/NAME",
    ),
    Setting(
        "webhook_tls_cert_file",
        Text("file"),
        "certificate of the webhook, PEM; goes with the private key",
        "FILE",
        "one made in memory at each start, that the webhook's configuration is told to trust",
    ),
    Setting(
        "webhook_tls_private_key_file",
        Text("file"),
        "private key of the webhook, PEM; goes with the certificate",
        "FILE",
        "one made in memory at each start",
    ),
    Setting(
        "advertise_address",
        IpAddress(),
        "the address at which the API server reaches this replica, for EndpointSlices; without one none is kept",
        "IP",
    ),
    Setting(
        "remembered_decisions",
        Whole(0, 100_000),
        "how many of the latest decisions are remembered, for kubectl get decisions",
        "N",
    ),
    Setting(
        "seed",
        Whole(0, 2**63 - 1),
        "seed of the random choice among equally good nodes",
        "N",
        "a new one each time",
    ),
    Setting(
        "resync_seconds",
        Whole(1, 86_400, float),
        "how often the cache is compared with the API server's lists",
        "N",
    ),
    Setting(
        "built_in_policy",
        Switch(),
        'serve pods of "berth" by a built-in policy while no SchedulingPolicy has that schedulerName; off: they wait',
    ),
    Setting(
        "reserved_scheduler_names",
        Listed("scheduler names"),
        "scheduler names for which only trusted policies may decide; others that claim one are refused",
        "A,B",
    ),
    Setting(
        "protected_namespaces",
        Listed("namespaces"),
        "namespaces for whose pods only the built-in policy and trusted policies decide",
        "A,B",
    ),
    Setting(
        "trusted_policies",
        Listed("policies"),
        "SchedulingPolicies that may have reserved scheduler names and decide in protected namespaces",
        "A,B",
    ),
    Setting(
        "extender_hosts",
        HostPatterns(),
        "hosts that policies may name for extenders: names, addresses, *.END for all names with that end, * for any",
        "A,B",
    ),
    Setting(
        "extender_networks",
        Networks(),
        "networks where extenders may be although they are off by default: loopback, link-local, cloud metadata, "
        "unspecified, multicast and reserved addresses",
        "CIDR,CIDR",
    ),
    Setting(
        "installation",
        Installation(),
        "which installation of Berth a replica belongs to; replicas of two that meet under one peering name say so",
        "NAME",
    ),
    Setting("log_level", Choice(LEVELS), "what is logged: records of this level and above", "LEVEL"),
    Setting("log_format", Choice(FORMATS), "how it is logged: lines for people, or JSON, one object a line", "FORMAT"),
    Setting(
        "feature_gates",
        Gates(),
        f"what is optional or experimental, switched on or off: {', '.join(gate.name for gate in GATES)}",
        "A=true,B=false",
    ),
)
BY_KEY = {setting.key: setting for setting in SETTINGS}


def as_mapping(options: Options) -> dict[str, object]:
    """The options under the keys of the file, in the table's order, as JSON and YAML write them. No secret is in it:
    credentials and keys are named by their files.
    """
    return {setting.key: setting.kind.to_yaml(getattr(options, setting.name)) for setting in SETTINGS}
