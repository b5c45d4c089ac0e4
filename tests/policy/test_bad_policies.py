"""Every bad policy of the table is told, offline, in words and with its field; those that only degrade are valid."""

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.policy import PolicyError, PolicyStore, load_policy
from policy.bad_policies import BAD_POLICIES, Bad, By


def test_there_are_sixty_and_no_two_share_anything() -> None:
    assert len(BAD_POLICIES) >= 60
    assert sum(bad.by is By.SERVER for bad in BAD_POLICIES) >= 30
    names = [manifest["metadata"]["name"] for bad in BAD_POLICIES for manifest in bad.manifests]
    assert len(names) == len({*names})
    assert len({bad.title for bad in BAD_POLICIES}) == len(BAD_POLICIES)


@pytest.mark.parametrize("bad", [bad for bad in BAD_POLICIES if bad.by is not By.DEGRADED], ids=lambda bad: bad.title)
def test_it_is_refused_with_its_field(bad: Bad) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(bad.manifests[-1])
    told = {problem.field: problem.message for problem in caught.value.problems}
    assert bad.field in told
    if len(bad.manifests) == 1:
        assert bad.words in told[bad.field]
    assert all(told.values())


@pytest.mark.parametrize("bad", [bad for bad in BAD_POLICIES if bad.by is By.DEGRADED], ids=lambda bad: bad.title)
def test_what_only_degrades_is_valid(bad: Bad) -> None:
    load_policy(bad.manifests[-1])


def test_the_policy_store_refuses_every_one_and_the_others_go_on() -> None:
    store = PolicyStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for bad in BAD_POLICIES:
        for manifest in bad.manifests:
            store.observe(manifest)
    statuses: dict[str, Any] = store.statuses()
    for bad in BAD_POLICIES:
        [accepted] = [c for c in statuses[bad.name]["conditions"] if c["type"] == "Accepted"]
        if bad.by is By.DEGRADED:
            assert accepted["status"] == "True"
        else:
            assert accepted["status"] == "False"
            assert bad.field in accepted["message"]
            assert bad.words in accepted["message"]
