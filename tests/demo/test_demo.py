"""The whole demo, small and in a hurry: the embedded cluster, the real operator over HTTP, the real story."""

import asyncio
import io
import logging
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console

from berth.demo.command import FAILED, INTERRUPTED, OK, DemoOptions
from berth.demo.complaints import kept_complaints
from berth.demo.runner import run_demo
from berth.demo.scenario import Timing

HURRIED = Timing(wave_seconds=0.1, job_seconds=1, hold_seconds=0.0)


class Output(io.StringIO):
    """What the demo says; `on_words` is called once when it has said certain words."""

    def __init__(self, words: str = "", on_words: object = None) -> None:
        super().__init__()
        self._words, self._on_words = words, on_words

    def write(self, text: str) -> int:
        if self._words and self._words in text and callable(self._on_words):
            self._words = ""
            self._on_words()
        return super().write(text)


@pytest.fixture(autouse=True)
def temporary_files_in_a_folder_of_the_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


async def run(options: DemoOptions, stopping: asyncio.Event, out: io.StringIO) -> int:
    return await run_demo(options, stopping, Console(file=out, force_terminal=False), HURRIED)


def read(path: str) -> tuple[str, str, str]:
    return Path(path).read_text().strip().partition(": ")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_small_demo_plays_to_its_end_and_stays_for_kubectl_as_long_as_it_is_wanted(tmp_path: Path) -> None:
    stopping = asyncio.Event()
    answers: list[str] = []

    async def look() -> None:
        """Do what the text says: the kubeconfig is there, and the operator answers."""
        said = out.getvalue()
        header, _, address = said.rpartition("curl -H @")[2].splitlines()[0].partition(" ")
        name, _, value = await asyncio.to_thread(read, header)
        assert await asyncio.to_thread(read, said.rpartition("export KUBECONFIG=")[2].splitlines()[0])
        health = said.rpartition("curl 'http")[2].partition("'")[0]
        async with aiohttp.ClientSession() as session:
            for url, headers in (
                (f"http{health}", {}),
                (f"http://{address}", {name: value}),
                (f"http://{address}", {}),
            ):
                async with session.get(url, headers=headers) as response:
                    answers.append(f"{response.status} {await response.text()}")
        stopping.set()

    looking: list[asyncio.Task[None]] = []
    out = Output("/metrics", lambda: looking.append(asyncio.create_task(look())))
    code = await run(DemoOptions(nodes=9, pods=60, keep=True, picture=tmp_path / "demo.svg"), stopping, out)
    text = out.getvalue()
    assert code == OK, text
    assert "60 of 60 pods placed on 9 nodes" in text
    assert "pending: demo/giant: 0/9 nodes are available: 3 Insufficient cpu, 6 node(s) didn't match" in text
    assert "from spreading to packing" in text
    await looking[0]
    health, metrics, nothing = answers
    assert "readyz check passed" in health
    assert "scheduler_" in metrics
    assert nothing.startswith("401")
    assert "/apis/explain.berth.dev/v1alpha1/ui/\n" in text
    assert names_in(tmp_path) == ["demo.svg"]


async def test_an_interrupted_demo_takes_everything_with_it(tmp_path: Path) -> None:
    stopping = asyncio.Event()
    out = Output("the operator is there", stopping.set)
    assert await run(DemoOptions(nodes=3, pods=20), stopping, out) == INTERRUPTED
    assert "interrupted" in out.getvalue()
    assert names_in(tmp_path) == []


async def test_a_demo_whose_operator_cannot_run_fails_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("berth.demo.operator_process.PROGRAM", "import sys; sys.exit('no such luck')")
    out = io.StringIO()
    assert await run(DemoOptions(nodes=3, pods=20), asyncio.Event(), out) == FAILED
    assert "FAILED: the operator ended with exit code 1" in out.getvalue()
    assert "no such luck" in out.getvalue()
    assert names_in(tmp_path) == []


def test_complaints_of_the_log_are_kept_and_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with kept_complaints() as complaints:
        logging.getLogger("berth.sim").warning("something is %s", "odd")
        logging.getLogger("berth.sim").info("nothing is")
    assert list(complaints.lines) == ["WARNING berth.sim: something is odd"]
    assert capsys.readouterr().err == ""
