"""Where and with what to serve, by the options."""

from pathlib import Path

from berth.configuration.options import Options
from berth.serving.addresses import parse_http_address, parse_https_address
from berth.serving.certificates import Pair
from berth.serving.server import ServingPlan


def serving_plan(options: Options) -> ServingPlan:
    """Raises ValueError for invalid options; those that were read are valid."""
    pair = None
    if options.tls_cert_file is not None and options.tls_private_key_file is not None:
        pair = Pair(Path(options.tls_cert_file), Path(options.tls_private_key_file))
    return ServingPlan(
        parse_https_address(options.https_address) if options.https_address else None,
        parse_http_address(options.http_address) if options.http_address else None,
        pair,
        options.debug_endpoints,
    )
