"""The client that a running Berth reads and writes with, as the options want it."""

from berth.cluster.api import Api
from berth.cluster.credentials import Credentials
from berth.cluster.leadership import Terms
from berth.configuration import Options

CONNECTIONS_AHEAD = 8  # kept ready for the first binds of a burst


def make_client(options: Options, credentials: Credentials) -> Api:
    """Where there are other replicas, nothing that it sends arrives later than a request behind the fence may take."""
    terms = Terms(options.peering_lifetime_seconds)
    delivery_seconds = None if options.standalone else terms.request_seconds
    return Api(credentials, ahead=CONNECTIONS_AHEAD, delivery_seconds=delivery_seconds)
