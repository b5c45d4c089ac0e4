"""Pages that are made from the code say what the code says: `make docs` makes them again."""

from pathlib import Path

from berth.configuration import pages
from berth.serving import metrics_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_configuration_is_made_from_the_table() -> None:
    assert (DOCS / "configuration.md").read_text() == pages.page()


def test_the_page_of_the_metrics_is_made_from_the_table() -> None:
    assert (DOCS / "metrics.md").read_text() == metrics_page.page()


def test_running_berth_leads_to_the_pages() -> None:
    text = (DOCS / "operations.md").read_text()
    assert "(configuration.md)" in text
    assert "(metrics.md)" in text
