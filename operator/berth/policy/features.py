"""What policies may use, where feature gates switch something off.

A manifest is checked before anything else of it is read. So the package of a plugin that is switched off is not
imported, and no expression is compiled. The problem names the gate; the rest of such a policy is not checked. A policy
that is based on it finds that its base is invalid. Preemption is on by default, so only a policy that asks for it by
name is refused; the others go without it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from berth.engine.registry import OWN_PLUGINS, PLUGINS
from berth.policy.compile import ActivePolicy
from berth.policy.entries import LIST_OF
from berth.policy.records import Mode, Problem

OFF = "is switched off by the feature gate {gate}: leave it out, or start Berth with --feature-gates {gate}=true"


@dataclass(frozen=True, slots=True)
class Features:
    """Whether policies may have expressions, name plugins of installed packages, be in mode Shadow, preempt pods."""

    expressions: bool = True
    python_plugins: bool = True
    shadow_policies: bool = True
    preemption: bool = True

    def refusals(self, manifest: Mapping[str, object]) -> list[Problem]:
        """Returns a problem for each thing that the manifest uses and that is off."""
        spec = manifest.get("spec")
        if self == ALL or not isinstance(spec, Mapping):
            return []
        problems = []
        if not self.shadow_policies and spec.get("mode") == Mode.SHADOW:
            problems.append(Problem("spec.mode", f"Shadow {OFF.format(gate='ShadowPolicies')}"))
        preemption = spec.get("preemption")
        if not self.preemption and isinstance(preemption, Mapping) and preemption.get("enabled"):
            problems.append(Problem("spec.preemption.enabled", f"preemption {OFF.format(gate='Preemption')}"))
        for where, entry in _entries(spec):
            if not self.expressions and entry.get("expression") is not None:
                problems.append(Problem(f"{where}.expression", f"an expression {OFF.format(gate='Expressions')}"))
            for field in ("plugin", "name"):
                name = entry.get(field)
                if not self.python_plugins and isinstance(name, str) and name in PLUGINS and name not in OWN_PLUGINS:
                    text = f"{name}, which an installed package brings, {OFF.format(gate='PythonPlugins')}"
                    problems.append(Problem(f"{where}.{field}", text))
        return problems

    def limited(self, active: ActivePolicy) -> ActivePolicy:
        """Returns the policy without what is off and was on by default only."""
        return active if self.preemption else replace(active, preemption=None)


ALL = Features()


def _entries(spec: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    for key in LIST_OF.values():
        listed = spec.get(key)
        for index, entry in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(entry, Mapping):
                yield f"spec.{key}[{index}]", entry
