"""What a SchedulingPolicy is once it has been read: frozen records, and the error that lists what is wrong with one.

A `Policy` is *resolved*: its base with the manifest's differences applied, disabled entries dropped. Two manifests that
mean the same give equal policies but for name, uid and generation. Predicates are in the order in which they run. Each
entry remembers the field of the manifest that it came from, so that a problem found later (an argument that a plugin
refuses) can still name it.

Nothing here reads manifests (`schema`) or builds plugins (`compile`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from berth.engine.pipeline import TieBreak
from berth.model import LabelSelector
from berth.policy.reading import NO_ARGS


def _no_args() -> Mapping[str, object]:
    return NO_ARGS


@dataclass(frozen=True, slots=True)
class Predicate:
    """A plugin that says which nodes a pod fits on; `plugin` is which, where the name does not say it.

    `own_name`: the name is the entry's own, and a policy has as many of the plugin as there are names.
    `pre_filter_only`: of what it says only that counts which it says before any node is looked at. `expression`: the
    rule itself, in CEL, instead of a plugin; `message` is what it says of a node that it refuses.
    """

    name: str
    args: Mapping[str, object] = field(default_factory=_no_args)
    origin: str = field(default="", compare=False)  # "spec.predicates[2]"; empty for an entry of the base
    plugin: str = field(default="", kw_only=True)
    own_name: bool = field(default=False, kw_only=True, compare=False)
    pre_filter_only: bool = field(default=False, kw_only=True)
    expression: str = field(default="", kw_only=True)
    message: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugin", self.plugin or self.name)


@dataclass(frozen=True, slots=True)
class Priority:
    """A plugin that says, from 0 to 100, how much it likes a node; its weight multiplies that.

    `expression`: the points, in CEL, instead of a plugin; `normalized`: the highest becomes 100, others their share.
    """

    name: str
    weight: int = 1
    args: Mapping[str, object] = field(default_factory=_no_args)
    origin: str = field(default="", compare=False)
    plugin: str = field(default="", kw_only=True)
    own_name: bool = field(default=False, kw_only=True, compare=False)
    expression: str = field(default="", kw_only=True)
    normalized: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugin", self.plugin or self.name)


class Mode(StrEnum):
    """ACTIVE decides; SHADOW decides beside the active one, binds nothing and reports; DISABLED does nothing."""

    ACTIVE = "Active"
    SHADOW = "Shadow"
    DISABLED = "Disabled"


class Constraints(StrEnum):
    """Which spreading constraints pods get that have none: kube-scheduler's, those listed, or none."""

    SYSTEM = "System"
    LIST = "List"
    NONE = "None"


@dataclass(frozen=True, slots=True)
class Tls:
    """How an extender's https is trusted; PEM text, "" where it is not given."""

    insecure: bool = False
    server_name: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """A resource for which an extender is asked; `ignored`: NodeResourcesFit leaves it to the extender."""

    name: str
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class Extender:
    """An HTTP service that is asked beside the plugins. A verb of "" is not asked; `tls` None is plain http."""

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    timeout_seconds: float = 5.0
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False
    tls: Tls | None = None
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PreemptionSettings:
    """Whether pods of lower priority may be evicted, and how many candidate nodes are looked for at least."""

    enabled: bool = True
    percentage: int = 10
    absolute: int = 100


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """When a pod that was not placed is tried again, in seconds."""

    first_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 10.0
    flush_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that a policy says, resolved.

    `parameters` are for its expressions. `annotates`: the pods that it places carry its name and generation.
    `check_all`: a message counts every predicate's refusals, not only the first. `node_percentage`: how many of the
    nodes have to be found to fit before the search ends; 0: fewer the larger the cluster. `shadow_percentage`: the
    share of pods that a policy in Shadow mode judges. `spread_defaults` are arguments of every PodTopologySpread, and
    `bind_timeout_seconds` is one of VolumeBinding; None: their own default. `predicate_order` is what the manifest puts
    first, for policies that are based on this one.
    """

    name: str
    uid: str
    generation: int
    scheduler_name: str
    predicates: tuple[Predicate, ...]
    priorities: tuple[Priority, ...]
    tie_break: TieBreak = TieBreak.RANDOM
    mode: Mode = Mode.ACTIVE
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None
    parameters: Mapping[str, object] = field(default_factory=_no_args)
    extenders: tuple[Extender, ...] = ()
    preemption: PreemptionSettings = PreemptionSettings()
    backoff: BackoffSettings = BackoffSettings()
    node_percentage: int = 100
    check_all: bool = False
    annotates: bool = False
    shadow_percentage: int = 100
    spread_defaults: Mapping[str, object] | None = None
    bind_timeout_seconds: int | None = None
    predicate_order: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a manifest: where, and what to do about it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class PolicyError(ValueError):
    """A manifest that cannot be a policy, with everything that is wrong with it."""

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__(f"SchedulingPolicy {name or '(unnamed)'}: " + "; ".join(map(str, self.problems)))
