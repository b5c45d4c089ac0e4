"""Which hosts and addresses an extender may have, and the forms in which one address can be written."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.policy.addresses import EVERYWHERE, ExtenderAddresses, is_host_pattern

DEFAULT = ExtenderAddresses()


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.0.9", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("::", "unspecified"),
        ("169.254.169.254", "link-local"),
        ("169.254.170.2", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("192.0.0.192", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:a9fe:a9fe", "link-local"),
        ("::127.0.0.1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
    ],
)
def test_addresses_that_mean_something_else_from_inside_are_off_by_default(address: str, kind: str) -> None:
    problem = DEFAULT.address_problem(address)
    assert kind in problem.partition(" is not allowed")[0]
    assert "--extender-networks" in problem
    assert EVERYWHERE.address_problem(address) == ""


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "172.16.0.9", "203.0.113.5", "fd12::1", "2001:db8::1"])
def test_addresses_of_a_cluster_and_of_others_are_allowed(address: str) -> None:
    assert DEFAULT.address_problem(address) == DEFAULT.host_problem(address) == ""


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_is_judged_alike_in_every_form_that_stands_for_it(number: int) -> None:
    plain = DEFAULT.address_problem(str(IPv4Address(number)))
    assert DEFAULT.address_problem(str(IPv6Address((0xFFFF << 32) | number))) == plain
    if plain:
        nat64 = int(IPv6Address("64:ff9b::")) | number
        sixtofour = (0x2002 << 112) | (number << 80)
        assert all(DEFAULT.address_problem(str(IPv6Address(form))) for form in (nat64, sixtofour))


@given(st.integers(0, 2**32 - 1))
def test_what_python_knows_as_special_is_off(number: int) -> None:
    address = IPv4Address(number)
    special = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    if special or address in ipaddress.ip_network("240.0.0.0/4"):
        assert DEFAULT.address_problem(str(address))


def test_a_network_that_the_operator_names_is_allowed_and_no_other() -> None:
    allowed = ExtenderAddresses(networks=(ip_network("127.0.0.0/8"),))
    assert allowed.address_problem("127.0.0.1") == allowed.address_problem("::ffff:127.0.0.1") == ""
    assert allowed.address_problem("169.254.169.254")
    assert allowed.address_problem("::1")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "127.1", "0x7f000001", "2130706433", "[::1]"]
)
def test_a_host_that_is_the_pod_itself_is_noticed_however_it_is_written(host: str) -> None:
    assert "loopback" in DEFAULT.host_problem(host)


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("*", "anything", True),
        ("*", "10.0.0.1", True),
        ("licences.kube-system", "licences.kube-system", True),
        ("licences.kube-system", "LICENCES.kube-system.", True),
        ("licences.kube-system", "licences.kube-system.evil.example", False),
        ("*.svc", "licences.kube-system.svc", True),
        ("*.svc", "svc", False),
        ("*.svc", "evilsvc", False),
        ("*.svc", "a.svc.evil.example", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("fd12::1", "[FD12:0::1]", True),
        ("*.1", "10.0.0.1", False),
    ],
)
def test_hosts_are_matched_by_name_address_or_end(pattern: str, host: str, matches: bool) -> None:
    problem = ExtenderAddresses(hosts=(pattern,)).host_problem(host)
    assert (problem == "") is matches
    assert matches or "--extender-hosts" in problem


def test_a_star_alone_names_no_host() -> None:
    assert not DEFAULT.names("licences.kube-system")
    assert ExtenderAddresses(hosts=("*", "*.svc")).names("licences.kube-system.svc")


def test_a_host_that_is_named_is_still_not_the_pod_itself() -> None:
    assert "loopback" in ExtenderAddresses(hosts=("localhost",)).host_problem("localhost")


@pytest.mark.parametrize("text", ["", "a b", "A", "http://a", "a:80", "*a", "a.*", "*.", "a/8", "*.*"])
def test_what_is_no_pattern_for_hosts(text: str) -> None:
    assert not is_host_pattern(text)
