"""The front proxy's credentials: how the embedded API server proves to aggregated APIs that it is the API server.

It publishes its certificate authority, and the headers in which it names users, where a real API server does: in
ConfigMap kube-system/extension-apiserver-authentication.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from typing import Any, Final

CONFIG_MAP: Final = "extension-apiserver-authentication"
NAMESPACE: Final = "kube-system"
CLIENT: Final = "front-proxy-client"
USER, GROUP, EXTRA, UID = "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-", "X-Remote-Uid"


@dataclass(frozen=True, slots=True)
class FrontProxyCredentials:
    """The authority's certificate, and the key and certificate that it has signed, as PEM."""

    authority: str
    client: bytes

    def config_map(self) -> dict[str, Any]:
        """Returns what is published."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {
                "requestheader-allowed-names": json.dumps([CLIENT]),
                "requestheader-client-ca-file": self.authority,
                "requestheader-extra-headers-prefix": json.dumps([EXTRA]),
                "requestheader-group-headers": json.dumps([GROUP]),
                "requestheader-uid-headers": json.dumps([UID]),
                "requestheader-username-headers": json.dumps([USER]),
            },
        }

    def write(self) -> Any:
        """Returns an open file with key and certificate: Python's ssl reads them from files only."""
        file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - the caller closes it
        file.write(self.client)
        file.flush()
        return file
