"""The algorithm providers that kube-scheduler had up to 1.22."""

from collections.abc import Mapping

# Each as the arguments that set it apart from the default.
PROVIDERS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "DefaultProvider": {},
    "ClusterAutoscalerProvider": {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}},
}
