"""What to try next: printed at the end of the demo, each a command that works as it stands."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from berth.demo.scenario import GIANT, NAMESPACE


class KeptCluster(Protocol):
    """Where the cluster and the operator of the demo are."""

    kubeconfig: Path
    header_file: Path
    operator_address: str

    @property
    def page(self) -> str: ...


def steps_afterwards() -> list[str]:
    """Three commands for a user whose demo is over."""
    berth = _berth()
    steps = {
        f"{berth} demo --keep": "then kubectl works on it",
        f"{berth} demo --nodes 1000 --pods 5000": "a larger cluster",
        f"{berth} policy --help": "check, compare, import",
    }
    return ["Next:", *_aligned(steps)]


def steps_on_cluster(cluster: KeptCluster) -> list[str]:
    """Three commands for a user whose cluster stays, and where the operator is."""
    steps = {
        "kubectl run x --image=nginx": "then: kubectl get pod x -o wide",
        f"kubectl -n {NAMESPACE} get why {GIANT}": "why the pod is pending",
        f"{_berth()} top": "nodes and decisions, live",
    }
    return [
        f"The page: {cluster.page}",
        "The cluster stays until Ctrl-C. In another terminal:",
        f"  export KUBECONFIG={cluster.kubeconfig}",
        *_aligned(steps),
        f"  curl 'http://{cluster.operator_address}/readyz?verbose'",
        f"  curl -H @{cluster.header_file} {cluster.operator_address}/metrics",
    ]


def _aligned(steps: Mapping[str, str]) -> list[str]:
    cells = max(map(len, steps)) + 2
    return [f"  {command:<{cells}}{what}" for command, what in steps.items()]


def _berth() -> str:
    """The command as a user can type it: where it is, unless the shell finds it."""
    if shutil.which("berth"):
        return "berth"
    program = Path(sys.executable).with_name("berth")
    try:
        return str(program.relative_to(Path.cwd()))
    except ValueError:
        return str(program)
