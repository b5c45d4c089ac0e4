"""What policies may not do, by the options."""

from ipaddress import ip_network

from berth.configuration.options import Options
from berth.policy.addresses import ExtenderAddresses
from berth.policy.limits import Limits


def extender_addresses(options: Options) -> ExtenderAddresses:
    """Where extenders may be; ValueError for options that were not read, and are invalid."""
    return ExtenderAddresses(options.extender_hosts, tuple(map(ip_network, options.extender_networks)))


def policy_limits(options: Options) -> Limits:
    return Limits(
        frozenset(options.reserved_scheduler_names),
        frozenset(options.protected_namespaces),
        frozenset(options.trusted_policies),
        extender_addresses(options),
    )
