"""Manifests for tests: a policy as the API server hands it over, and kube-scheduler configurations."""

from collections.abc import Mapping
from typing import Any


def make_policy(name: str = "batch", *, generation: int = 1, uid: str | None = None, **spec: Any) -> dict[str, Any]:
    """A SchedulingPolicy; `spec` fields as keywords, schedulerName "berth" if not given (None: left out)."""
    body = {"schedulerName": "berth", **spec}
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "generation": generation},
        "spec": {key: value for key, value in body.items() if value is not None},
    }


def make_configuration(
    *profiles: Mapping[str, Any], version: str = "v1", kind: str = "KubeSchedulerConfiguration", **fields: Any
) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": kind, **fields}
    return {**body, "profiles": list(profiles)} if profiles else body


def make_profile(
    name: str | None = "default-scheduler", args: Mapping[str, Any] | None = None, **plugins: Any
) -> dict[str, Any]:
    """A profile; keywords are extension points with their plugin sets, `args` is plugin -> arguments."""
    profile: dict[str, Any] = {} if name is None else {"schedulerName": name}
    if plugins:
        profile["plugins"] = plugins
    if args:
        profile["pluginConfig"] = [{"name": plugin, "args": value} for plugin, value in args.items()]
    return profile


def plugin_set(enabled: Any = (), disabled: Any = ()) -> dict[str, Any]:
    """Enabled as names or as name -> weight; disabled as names."""
    listed = enabled.items() if isinstance(enabled, Mapping) else [(name, None) for name in enabled]
    return {
        "enabled": [{"name": name} if weight is None else {"name": name, "weight": weight} for name, weight in listed],
        "disabled": [{"name": name} for name in disabled],
    }
