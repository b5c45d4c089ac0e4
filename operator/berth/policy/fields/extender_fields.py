"""Fields of extenders."""

from berth.policy.fields.selector_fields import DNS_NAME, KEY_MAX_LENGTH, LABEL_NAME
from berth.policy.fields.types import CelRule, FlagField, IntegerField, ListField, NumberField, ObjectField, TextField
from berth.policy.records import Extender

EXTENDERS_MAX = 16
MANAGED_RESOURCES_MAX = 64
URL_PREFIX_MAX_LENGTH = 2048
VERB_MAX_LENGTH = 253
SERVER_NAME_MAX_LENGTH = 253
PEM_MAX_LENGTH = 65536
WEIGHT_MAX = 2**31 - 1
TIMEOUT_MAX_SECONDS = 600
URL_PREFIX_PATTERN = r"^https?://[^\s\x00-\x1f\x7f/?#@]+(/[^\s\x00-\x1f\x7f?#]*)?$"
VERB_PATTERN = r"^[^\s\x00-\x1f\x7f?#]+$"
CERTIFICATE_PATTERN = "-----BEGIN [A-Z ]*CERTIFICATE-----"
KEY_PATTERN = "-----BEGIN [A-Z ]*PRIVATE KEY-----"

_DEFAULTS = Extender("")


def _verb(description: str) -> TextField:
    return TextField(description, min_length=1, max_length=VERB_MAX_LENGTH, pattern=VERB_PATTERN)


TLS = ObjectField(
    "How https is trusted; without it, by the certificates of the system that Berth runs on. Users who may read "
    "policies can read what is here.",
    fields={
        "insecure": FlagField("true trusts any server that answers. Use it for tests only; false by default."),
        "serverName": TextField(
            "The name that its certificate must have, where that is not the host of urlPrefix.",
            min_length=1,
            max_length=SERVER_NAME_MAX_LENGTH,
        ),
        "ca": TextField(
            "The certificates that its certificate must be signed by, as PEM text.",
            max_length=PEM_MAX_LENGTH,
            pattern=CERTIFICATE_PATTERN,
        ),
        "certificate": TextField(
            "The certificate that Berth shows, as PEM text; with key.",
            max_length=PEM_MAX_LENGTH,
            pattern=CERTIFICATE_PATTERN,
        ),
        "key": TextField(
            "The private key of certificate, as PEM text, not encrypted.",
            max_length=PEM_MAX_LENGTH,
            pattern=KEY_PATTERN,
        ),
    },
    rules=(
        CelRule(
            "!has(self.insecure) || !self.insecure || !has(self.ca)",
            "ca is not looked at while insecure is true, leave one of the two out",
            ".ca",
        ),
        CelRule(
            "has(self.certificate) == has(self.key)",
            "certificate and key go together",
            ".key",
        ),
    ),
)

MANAGED_RESOURCE = ObjectField(
    "One extended resource.",
    required=("name",),
    fields={
        "name": TextField(
            "The resource's name. Example: example.com/fpga.",
            max_length=KEY_MAX_LENGTH,
            pattern=f"^{DNS_NAME}/{LABEL_NAME}$",
            rules=(
                CelRule(
                    "!self.contains('kubernetes.io/')",
                    "it is not the name of an extended resource, as example.com/fpga is",
                ),
            ),
        ),
        "ignoredByScheduler": FlagField(
            "true: NodeResourcesFit does not look at the resource, the extender alone does. As in "
            "kube-scheduler this takes the place of the plugin's ignoredResources. false by default.",
        ),
    },
)

EXTENDER = ObjectField(
    "One extender.",
    required=("urlPrefix",),
    fields={
        "urlPrefix": TextField(
            "Where it listens; a verb is put behind it with a slash. Without a user name and password: status "
            'and logs show it. Example: "https://fpga.kube-system:8443/scheduler".',
            min_length=1,
            max_length=URL_PREFIX_MAX_LENGTH,
            pattern=URL_PREFIX_PATTERN,
        ),
        "filterVerb": _verb(
            "The verb that asks which nodes of those that the predicates left fit. Example: filter.",
        ),
        "prioritizeVerb": _verb(
            "The verb that asks for points for nodes, 0 to 10 each, which count ten times as much, times "
            "weight. Not asked where one node is left. Example: prioritize.",
        ),
        "preemptVerb": _verb(
            "The verb that asks which victims preemption may take on which nodes. Example: preempt.",
        ),
        "bindVerb": _verb(
            "The verb that binds the pod to the node instead of Berth; one extender of a policy can have it. "
            "Example: bind.",
        ),
        "weight": IntegerField(
            f"What the points that it gives are multiplied with; {_DEFAULTS.weight} by default.",
            minimum=1,
            maximum=WEIGHT_MAX,
        ),
        "timeoutSeconds": NumberField(
            f"How long a call may take; {_DEFAULTS.timeout_seconds:g} by default.",
            minimum=0,
            maximum=TIMEOUT_MAX_SECONDS,
            above=True,
        ),
        "nodeCacheCapable": FlagField(
            "true: it knows the nodes itself, and is sent and sends their names only. false, the default: it is "
            "sent and sends whole Node objects.",
        ),
        "managedResources": ListField(
            "It is asked only for pods that request one of these extended resources; without any, for all pods.",
            max_items=MANAGED_RESOURCES_MAX,
            keys=("name",),
            items=MANAGED_RESOURCE,
        ),
        "ignorable": FlagField(
            "true: where it does not answer, pods are placed without it. false, the default: they wait and are "
            "tried again.",
        ),
        "tls": TLS,
    },
    rules=(
        CelRule(
            "has(self.filterVerb) || has(self.prioritizeVerb) || has(self.preemptVerb) || has(self.bindVerb) || "
            "(has(self.managedResources) && self.managedResources.exists(r, has(r.ignoredByScheduler) && "
            "r.ignoredByScheduler))",
            "the extender is never asked, give it a filterVerb, prioritizeVerb, preemptVerb or bindVerb",
        ),
        CelRule(
            "!has(self.tls) || self.urlPrefix.startsWith('https://')",
            "tls says how to trust https, but urlPrefix does not start with https://",
            ".tls",
        ),
    ),
)

EXTENDERS = ListField(
    "HTTP services that are asked beside the predicates and priorities, in kube-scheduler's protocol. One that "
    "does not answer in time, or answers nonsense, fails the attempt to place the pod unless it is ignorable, "
    "and shows in condition Degraded; pods of other policies do not wait for it. They take the place of those "
    'of the base as a whole: [] drops them. Example: [{urlPrefix: "http://fpga.kube-system:8888/scheduler", '
    "filterVerb: filter, managedResources: [{name: example.com/fpga, ignoredByScheduler: true}]}].",
    max_items=EXTENDERS_MAX,
    items=EXTENDER,
    rules=(
        CelRule(
            "self.filter(e, has(e.bindVerb)).size() <= 1",
            "one extender can bind, leave bindVerb out of the others",
        ),
    ),
)
