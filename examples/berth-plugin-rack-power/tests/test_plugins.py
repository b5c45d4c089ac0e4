"""The plugins on small clusters: manifests in, verdicts and scores by node out. No API server is needed."""

from pathlib import Path
from random import Random

import pytest
import yaml
from berth_rack_power.rack_power import REASON, RackPower
from berth_rack_power.tenant_limit import TenantLimit

from berth.engine.diagnosis import Diagnosis
from berth.engine.pipeline import Pipeline, TieBreak
from berth.engine.plugin import BadArgument
from berth.engine.testing import check_contract, cluster, make, scores, verdicts
from berth.model import parse_pod
from berth.policy import load_policy

POLICY = Path(__file__).parents[1] / "policy.yaml"
LIMIT = {"maxWatts": 100, "wattsPerCore": 10}


def node(name, rack=None, cpu="16"):
    labels = {"example.com/rack": rack} if rack else {}
    size = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": size}}


def pod(name, on="", cpu="1", tenant=None):
    labels = {"example.com/tenant": tenant} if tenant else {}
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu} if cpu else {}}}
    spec = {"containers": [container], "nodeName": on}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels}, "spec": spec}


RACKS = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("loose")]


def test_a_rack_takes_pods_up_to_its_power_and_no_further():
    state = cluster([*RACKS, pod("big", on="a1", cpu="8")])
    rack_power = make(RackPower, LIMIT)
    fits = {"a1": (), "a2": (), "b1": (), "loose": ()}
    assert verdicts(rack_power, parse_pod(pod("p", cpu="2")), state) == fits
    assert verdicts(rack_power, parse_pod(pod("p", cpu="2001m")), state) == {**fits, "a1": (REASON,), "a2": (REASON,)}


def test_the_rack_with_the_most_power_left_scores_highest():
    state = cluster([*RACKS, pod("big", on="a2", cpu="4")])
    assert scores(make(RackPower, LIMIT), parse_pod(pod("p", cpu="1")), state) == {
        "a1": 50,
        "a2": 50,
        "b1": 90,
        "loose": 100,
    }


def test_a_pod_that_requests_no_cpu_needs_no_power():
    assert verdicts(make(RackPower, LIMIT), parse_pod(pod("p", cpu="")), cluster(RACKS)) == "nothing to say"


@pytest.mark.parametrize(
    ("kind", "args", "field"),
    [
        (RackPower, {}, "maxWatts"),
        (RackPower, {"maxWatts": 0}, "maxWatts"),
        (RackPower, {"maxWatts": 100, "wattsPerCore": "10"}, "wattsPerCore"),
        (RackPower, {"maxWatts": 100, "label": ""}, "label"),
        (RackPower, {"maxWats": 100}, "maxWats"),
        (TenantLimit, {}, "most"),
        (TenantLimit, {"most": True}, "most"),
        (TenantLimit, {"most": 3, "label": 1}, "label"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_by_name(kind, args, field):
    with pytest.raises(BadArgument) as refused:
        kind(args)
    assert refused.value.field == field


def test_a_tenant_has_its_share_of_a_node():
    placed = [pod(f"s{number}", on="a1", tenant="shop") for number in range(2)]
    state = cluster([*RACKS, *placed, pod("other", on="a2", tenant="bank")])
    tenant_limit, asking = make(TenantLimit, {"most": 2}), parse_pod(pod("p", tenant="shop"))
    crowded = "node(s) had too many pods of the tenant"
    assert verdicts(tenant_limit, asking, state) == {"a1": (crowded,), "a2": (), "b1": (), "loose": ()}
    assert scores(tenant_limit, asking, state) == {"a1": 0, "a2": 100, "b1": 100, "loose": 100}


def test_a_pod_of_no_tenant_goes_anywhere():
    assert not make(TenantLimit, {"most": 2}).concerns(parse_pod(pod("p")))


@pytest.mark.parametrize(("kind", "args"), [(RackPower, LIMIT), (TenantLimit, {"most": 2})])
def test_the_plugin_keeps_the_contract(kind, args):
    placed = [pod(f"s{number}", on=("a1", "b1")[number % 2], tenant="shop") for number in range(3)]
    asking = [pod("p", tenant="shop"), pod("q", cpu="3", tenant="bank"), pod("r", cpu="500m"), pod("s", cpu="")]
    check_contract(kind, args, [*RACKS, *placed], [parse_pod(body) for body in asking])


def test_the_policy_is_accepted_and_fills_racks_to_their_power():
    """The plugins are found by their entry points: the package has to be installed for this one."""
    pipeline = load_policy(yaml.safe_load(POLICY.read_text(encoding="utf-8"))).pipeline
    assert {"RackPower", "TenantLimit"} <= {plugin.name for plugin in pipeline.filters}
    state = cluster([node("a1", "a", cpu="1000"), node("b1", "b", cpu="1000")])
    filling = Pipeline(pipeline.filters, pipeline.scores, TieBreak.FIRST)
    taken = {"a1": 0, "b1": 0}
    for number in range(20):
        one = parse_pod(pod(f"p{number}", cpu="100"))
        said = filling.decide(one, state, Random(0))
        if isinstance(said, Diagnosis):
            assert said.message == f"0/2 nodes are available: 2 {REASON}."
            break
        state.table.add_pod(one, said.node)
        taken[said.node] += 1
    assert taken == {"a1": 6, "b1": 6}  # 600 cores at 12 watts are 7200 of 8000 watts
