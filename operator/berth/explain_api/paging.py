"""Pages of a list: where the next one begins, as a text that the client hands back."""

import base64
import binascii

import orjson

from berth.explain_api.port import Key
from berth.explain_api.statuses import bad_request

LONGEST_TOKEN = 2048


def token(version: int, after: Key) -> str:
    """Returns what continues a list of this version after this key."""
    return base64.urlsafe_b64encode(orjson.dumps([version, *after])).decode()


def read_token(text: str) -> tuple[int, Key]:
    """Returns version and key of a token; raises ApiRefusal if it is not one of ours."""
    try:
        version, namespace, name = orjson.loads(base64.b64decode(text[:LONGEST_TOKEN], b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError):
        raise bad_request("continue key is not valid: it is not one that this server has given") from None
    if type(version) is not int or not isinstance(namespace, str) or not isinstance(name, str):
        raise bad_request("continue key is not valid: it is not one that this server has given")
    return version, (namespace, name)
