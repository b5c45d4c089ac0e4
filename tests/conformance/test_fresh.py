"""Berth agrees with the oracle on vectors that nobody has seen before.

The seed is another one in every run. It is printed, and what failed is seen again with the `make vectors` line that
goes with it.
"""

import secrets

import pytest

from conformance.oracle.build import require_oracles
from conformance.oracle.vectors import command, describe, judge_vectors, make_vectors
from control_plane.programs import MissingPrograms

THEMES = 14


@pytest.fixture(scope="session")
def oracles() -> None:
    try:
        require_oracles()
    except MissingPrograms as error:
        pytest.skip(str(error))


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("count", "size", "nominated"),
    [(143, 10, False), (10, 80, False), (40, 10, True)],
    ids=["small clusters", "clusters of up to 80 nodes", "nominated pods counted"],
)
def test_every_fresh_vector_agrees_with_the_oracle(
    oracles: None, capsys: pytest.CaptureFixture[str], count: int, size: int, nominated: bool
) -> None:
    seed = secrets.token_hex(4)
    again = command(seed, count, size, nominated=nominated)
    with capsys.disabled():
        print(f"\n{again}", flush=True)
    vectors = make_vectors(seed, count, size, nominated=nominated)
    agreement = judge_vectors(vectors)
    assert vectors.failed == [], f"the oracle itself failed; {again}"
    assert len(vectors.packed) == count * THEMES
    assert not agreement.different, f"{again}\n{describe(agreement)}"
