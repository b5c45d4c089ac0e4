"""What a replica says of itself before its cache is synced."""

from pathlib import Path

from berth.configuration import Options
from berth.runtime import make_runtime
from cluster.server import write_kubeconfig


async def test_what_readiness_fails_by_is_told_check_by_check(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path, "http://x:1")
    runtime = make_runtime(Options(kubeconfig=str(kubeconfig), https_address="", standalone=True))
    problems = runtime.components.health.problems()
    assert "scheduler: makes no decisions yet" in problems
    assert any(problem.startswith("cache: ") for problem in problems)
    assert not any(problem.startswith("loop: ") for problem in problems)
