"""DynamicResources: rejects pods with resource claims, because Berth does not support them.

It skips all other pods. A pod with resource claims is rejected with a message, so that the claims are not silently
ignored. A user who wants such pods placed regardless of their claims disables the plugin in the SchedulingPolicy.

Arguments: filterTimeout, as in kube-scheduler; only its default (10s) is accepted.
"""

from collections.abc import Mapping
from typing import Any

from berth.engine.plugin import BadArgument, Dependencies, FilterPlugin, PodsRead, Query, ScorePlugin, refuse_unknown
from berth.engine.state.state import State
from berth.engine.verdict import SKIP, Code, PreFilter
from berth.model import Pod

REASON = "pod has resource claims (spec.resourceClaims), which Berth cannot judge (plugin DynamicResources)"
_DEFAULT_TIMEOUT = "10s"


class DynamicResources(FilterPlugin, ScorePlugin):
    name = "DynamicResources"
    dependencies = Dependencies(pods=PodsRead.NONE)
    retry_events = frozenset()

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "filterTimeout")
        if args.get("filterTimeout", _DEFAULT_TIMEOUT) != _DEFAULT_TIMEOUT:
            raise BadArgument("filterTimeout", "DynamicResources cannot be configured; leave the argument out")

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.resource_claims)

    def pre_filter(self, query: Query, state: State) -> PreFilter:
        if not query.pod.resource_claims:
            return SKIP
        return PreFilter(code=Code.UNRESOLVABLE, reasons=(REASON,), unsupported=True)

    def pre_score(self, query: Query, state: State) -> bool:
        return False
