"""docs/security.md has every bound, with its figure."""

from pathlib import Path

import pytest

from berth.model import bounds

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
TABLE = {
    cells[1]: cells[2]
    for cells in (line.split("|") for line in PAGE.partition("### Bounds")[2].splitlines())
    if len(cells) == 5
}


@pytest.mark.parametrize(("section", "name"), bounds.BOUNDS)
def test_the_page_has_the_bound_of_every_list(section: str, name: str) -> None:
    [most] = [most for field, most in TABLE.items() if field.strip() == f"`{section}.{name}`"]
    assert most.strip() == f"{bounds.BOUNDS[section, name]:,}"


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("containers`", bounds.MOST_CONTAINERS),
        ("`ports`", bounds.MOST_HOST_PORTS),
        ("monitors", bounds.MOST_MONITORS),
        ("nodeAffinity`: terms", bounds.MOST_NODE_TERMS),
        ("podAffinity`: terms", bounds.MOST_POD_TERMS),
        ("podAntiAffinity`: terms", bounds.MOST_POD_TERMS),
        ("node affinity: keys", bounds.MOST_NODE_VALUES),
        ("name no value of a label", bounds.MOST_WIDE_REQUIREMENTS),
        ("pod anti-affinity: keys", bounds.MOST_POD_VALUES),
        ("spread constraints: keys", bounds.MOST_SPREAD_VALUES),
        ("taints` of a node", bounds.MOST_TAINTS),
    ],
)
def test_the_page_has_the_bounds_of_parts(words: str, most: int) -> None:
    [found] = [figure for field, figure in TABLE.items() if words in field]
    assert found.split()[0] == f"{most:,}"
