"""The configuration that is shown: what is in force, and no secret of it."""

import orjson

from berth.configuration import Options, as_mapping
from berth.policy import PolicyStore
from berth.serving.configz import camel_case, configuration
from cluster.manual_clock import ManualClock
from policy.builders import make_policy

KEY = "-----BEGIN PRIVATE KEY-----"


def test_options_are_called_as_in_a_configuration_file() -> None:
    shown = configuration(as_mapping(Options(kubeconfig="/k", seed=7)), [])["berth"]
    assert shown["options"]["httpsAddress"] == "0.0.0.0:10259"
    assert (shown["options"]["kubeconfig"], shown["options"]["seed"]) == ("/k", 7)
    assert camel_case("tls_private_key_file") == "tlsPrivateKeyFile"


def test_policies_are_shown_as_they_decide_without_their_extenders_keys() -> None:
    book = PolicyStore(ManualClock().wall, built_in=False)
    tls = {"insecure": True}
    extender = {"urlPrefix": "https://e.test", "filterVerb": "filter", "tls": tls}
    priorities = [{"name": "NodeResourcesFit", "weight": 5}]
    book.observe(make_policy("batch", extenders=[extender], priorities=priorities))
    (active,) = book.in_force()
    (shown,) = configuration(Options(), [active.policy])["berth"]["policies"]
    assert (shown["name"], shown["mode"], shown["schedulerName"]) == ("batch", "Active", active.policy.scheduler_name)
    assert {"NodeResourcesFit": 5}.items() <= {one["name"]: one["weight"] for one in shown["priorities"]}.items()
    assert shown["extenders"][0]["urlPrefix"] == "https://e.test"
    orjson.dumps(shown)


def test_what_records_do_not_print_is_hidden() -> None:
    from berth.policy.records import Tls

    shown = configuration(Tls(certificate="c", key=KEY), [])["berth"]["options"]
    assert shown == {"insecure": False, "serverName": "", "ca": "", "certificate": "c", "key": "(hidden)"}
