"""Words of messages."""

import pytest

from berth.policy.wording import count


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (1234, "1,234 pods")], ids=str
)
def test_one_of_a_thing_is_not_several(number: int, said: str) -> None:
    assert count(number, "pod") == said
