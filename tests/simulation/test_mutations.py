"""Mutations of the shipped code are noticed: the invariants are not merely there. `make mutations` has them all."""

import pytest

from simulation.mutating import hunt_all
from simulation.mutations import MUTATIONS

QUICK = ("assume holds no room", "forget does not free", "gates are ignored", "an error has no backoff")
INVARIANTS = 22


def test_every_invariant_has_a_mutation_that_goes_against_it() -> None:
    assert {int(mutation.aims_at.split()[0]) for mutation in MUTATIONS.values()} == set(range(1, INVARIANTS + 1))
    assert len(MUTATIONS) >= 15


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_plain_mutation_is_noticed_by_one_of_the_first_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    caught = next(iter(hunt_all(5, 1, name)))
    assert caught.seed is not None
