"""To which API server, and as whom.

The order is kubectl's: the file given by flag, the files in $KUBECONFIG, ~/.kube/config; without any of them the
service account that a pod has. kubernetes_asyncio does the reading (tokens, certificates, exec plugins, OIDC); this
module decides where it reads, says in one sentence what is wrong, and hands the result to both clients: ours and
kopf's.

`load` may be called again at any time: after a 401, tokens and certificates are read afresh. In between, a service
account's token is read from its file once a minute by kubernetes_asyncio's own refresh hook.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes_asyncio.config.kube_config import list_kube_config_contexts

from berth.cluster.errors import CredentialsError

DEFAULT_KUBECONFIG = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Source:
    """Where credentials come from; neither is given for the default order."""

    kubeconfig: str | None = None
    context: str | None = None


class Credentials:
    """The API server's address and our proof of identity, as last loaded."""

    def __init__(self, source: Source) -> None:
        self.source = self._source = source
        self._configuration: Any = None

    async def load(self) -> None:
        """Read everything afresh; CredentialsError says what is missing and how to give it."""
        paths = self._paths()
        configuration = Configuration()
        if paths is None:
            self._load_service_account(configuration)
        else:
            await self._load_kubeconfig(configuration, paths)
        if configuration.tls_server_name:
            raise CredentialsError("tls-server-name in the kubeconfig is not supported; use that name in `server`")
        self._configuration = configuration

    @property
    def configuration(self) -> Any:
        """kubernetes_asyncio's Configuration; `load` first."""
        return self._configuration

    @property
    def server(self) -> str:
        return str(self._configuration.host).rstrip("/")

    async def authorization(self) -> str | None:
        """The value of the Authorization header, `Bearer ...`; None when a client certificate is all we have."""
        value = await self._configuration.get_api_key_with_prefix("BearerToken")
        return None if value is None else str(value).strip()

    def fingerprint(self) -> str:
        """Equal as long as the same connections can be used: the server and the contents of CA, certificate and key."""
        configuration = self._configuration
        digest = hashlib.sha256(f"{configuration.host} {configuration.verify_ssl} {configuration.proxy}".encode())
        for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
            digest.update(Path(path).read_bytes() if path else b"-")
        return digest.hexdigest()

    def _paths(self) -> str | None:
        named = self._source.kubeconfig or os.environ.get("KUBECONFIG")
        if named:
            self._check_exists(named)
            return named
        if Path(DEFAULT_KUBECONFIG).expanduser().is_file():
            return DEFAULT_KUBECONFIG
        return None

    def _check_exists(self, paths: str) -> None:
        if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
            raise CredentialsError(f"there is no kubeconfig at {paths}; give one with --kubeconfig or $KUBECONFIG")

    async def _load_kubeconfig(self, configuration: Any, paths: str) -> None:
        try:
            await load_kube_config(
                config_file=paths,
                context=self._source.context,
                client_configuration=configuration,
                persist_config=False,
            )
        except ConfigException as error:
            raise CredentialsError(f"kubeconfig {paths}: {error}{self._hint()}") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, yaml.YAMLError) as error:
            problem = str(error) or type(error).__name__
            raise CredentialsError(f"kubeconfig {paths} cannot be read: {problem}") from error

    def _hint(self) -> str:
        if self._source.context is None:
            return "; choose a context with --context"
        return f'; is "{self._source.context}" the name of a context in that file?'

    def _load_service_account(self, configuration: Any) -> None:
        if self._source.context is not None:
            raise CredentialsError("--context needs a kubeconfig; give one with --kubeconfig or $KUBECONFIG")
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except ConfigException as error:
            raise CredentialsError(
                f"no kubeconfig (--kubeconfig, $KUBECONFIG, {DEFAULT_KUBECONFIG}) and no service account: {error}"
            ) from error


def context_namespace(source: Source) -> str:
    """The namespace of the kubeconfig's context, as kubectl uses it; `default` without one.

    What is wrong with a kubeconfig is said by those who open it.
    """
    paths = source.kubeconfig or os.environ.get("KUBECONFIG") or str(Path(DEFAULT_KUBECONFIG).expanduser())
    try:
        contexts, current = list_kube_config_contexts(paths)
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return "default"
    chosen = [each for each in contexts if each.get("name") == source.context] if source.context else [current]
    details = chosen[0].get("context") if chosen and chosen[0] else None
    return str((details or {}).get("namespace") or "default")
