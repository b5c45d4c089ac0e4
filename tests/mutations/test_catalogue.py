"""The planted bugs can be planted: the code that they replace is there, and what they make of it compiles."""

import pytest

from mutations.__main__ import choose
from mutations.catalogue import MUTATIONS
from mutations.running import ROOT, SOURCE, Mutation, test
from simulation.mutations import MUTATIONS as SIMULATED

LEAST = 60


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_applies_to_the_shipped_code_and_names_tests_that_exist(mutation: Mutation) -> None:
    mutated = mutation.mutate((SOURCE / "berth" / mutation.file).read_text())
    compile(mutated, mutation.file, "exec")
    assert all((ROOT / path).is_file() for path in mutation.tests)


def test_there_are_enough_mutations_and_no_two_of_one_name() -> None:
    names = [mutation.name for mutation in MUTATIONS] + list(SIMULATED)
    assert len(set(names)) == len(names) >= LEAST


def test_a_sample_is_drawn_by_its_seed() -> None:
    chosen, simulated = choose("", 10, 7)
    assert len(chosen) + len(simulated) == 10
    assert choose("", 10, 7) == (chosen, simulated)
    assert choose("", 10, 8) != (chosen, simulated)


def test_a_mutation_is_caught_by_its_tests_and_one_that_changes_nothing_survives() -> None:
    planted = next(mutation for mutation in MUTATIONS if mutation.file == "scheduler/queue/change_log.py")
    assert test(planted).problem == ""
    harmless = Mutation("harmless", planted.file, planted.before, planted.before, planted.tests)
    assert test(harmless).problem == "SURVIVED"


def test_a_mutation_with_which_nothing_can_be_imported_proves_nothing() -> None:
    planted = next(mutation for mutation in MUTATIONS if mutation.file == "scheduler/queue/change_log.py")
    broken = Mutation("broken", planted.file, "from typing import Final", "from typing import Nothing", planted.tests)
    assert "could not run" in test(broken).problem
