"""What tolerations leave of the taints of nodes, beside a count of each taint for itself."""

from itertools import product
from random import Random

import pytest

from berth.engine.state.taints import TaintSets
from berth.model import Taint, Toleration

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINTS = [Taint(*parts) for parts in product("ab", ("", "1", "2"), EFFECTS)]
TOLERATIONS = [
    Toleration(*parts) for parts in product(("", "a", "b"), ("Equal", "Exists", "Lt"), ("", "1"), ("", *EFFECTS))
]


@pytest.mark.parametrize("seed", range(20))
def test_sets_that_come_and_go_have_as_many_untolerated_taints_as_counted_one_by_one(seed: int) -> None:
    random, sets = Random(seed), TaintSets()
    numbers: list[int] = []
    for _ in range(60):
        if numbers and random.random() < 0.4:
            sets.release(numbers.pop(random.randrange(len(numbers))))
        else:
            numbers.append(sets.use(tuple(random.sample(TAINTS, random.randint(0, 4)))))
        tolerations = tuple(random.choices(TOLERATIONS, k=random.randint(0, 3)))
        effects = random.choice([EFFECTS[:1], EFFECTS[1:2], EFFECTS[::2]])
        assert sets.untolerated(tolerations, effects).tolist() == [
            sum(t.effect in effects and not any(each.tolerates(t) for each in tolerations) for t in taints)
            for taints in sets.values
        ]


def test_a_thousand_tolerations_are_not_compared_with_a_thousand_taints(monkeypatch: pytest.MonkeyPatch) -> None:
    sets, compared = TaintSets(), []
    for number in range(1000):
        sets.use((Taint("dedicated", str(number), "NoSchedule"),))
    shipped = Toleration.tolerates

    def tolerates(self: Toleration, taint: Taint) -> bool:
        compared.append(taint)
        return shipped(self, taint)

    monkeypatch.setattr(Toleration, "tolerates", tolerates)
    tolerations = tuple(Toleration("dedicated", "Equal", str(number), "") for number in range(500, 1500))
    assert sets.untolerated(tolerations, ("NoSchedule",)).tolist() == [0] + 500 * [1] + 500 * [0]
    assert len(compared) == 500
