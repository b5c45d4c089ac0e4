"""Where credentials come from, and the one sentence that says what is missing."""

from pathlib import Path

import pytest

from berth.cluster.credentials import Credentials, Source
from berth.cluster.errors import CredentialsError
from cluster.server import write_kubeconfig


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def test_the_kubeconfig_of_the_flag_wins_over_the_environment_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_kubeconfig(tmp_path, "http://given:1")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    credentials = Credentials(Source(str(path)))
    await credentials.load()
    assert credentials.server == "http://given:1"
    assert await credentials.authorization() == "Bearer secret"


async def test_the_environment_s_kubeconfig_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{write_kubeconfig(tmp_path, 'http://found:1')}")
    credentials = Credentials(Source(context="other"))
    await credentials.load()
    assert credentials.server == "http://found:1"


async def test_a_kubeconfig_that_is_not_there_is_named() -> None:
    with pytest.raises(CredentialsError, match="there is no kubeconfig at /nowhere"):
        await Credentials(Source("/nowhere")).load()


async def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "http://x:1")
    with pytest.raises(CredentialsError, match='is "staging" the name of a context'):
        await Credentials(Source(str(path), "staging")).load()


@pytest.mark.parametrize("text", ["", "[]", "{a: ", "just text", "{clusters: 5}"])
async def test_a_file_that_is_no_kubeconfig_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(CredentialsError, match="kubeconfig"):
        await Credentials(Source(str(path))).load()


async def test_nothing_at_all_says_what_was_looked_for() -> None:
    with pytest.raises(CredentialsError, match=r"no kubeconfig .* and no service account"):
        await Credentials(Source()).load()


async def test_a_context_without_a_kubeconfig_is_refused() -> None:
    with pytest.raises(CredentialsError, match="--context needs a kubeconfig"):
        await Credentials(Source(context="x")).load()


async def test_a_tls_server_name_is_refused_in_words(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://x:1", cluster={"tls-server-name": "y"})
    with pytest.raises(CredentialsError, match="tls-server-name"):
        await Credentials(Source(str(path))).load()
