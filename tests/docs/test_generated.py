"""Pages that are made from the code say what the code says: `make docs` makes them again."""

from pathlib import Path

from berth.configuration import pages
from berth.explain import reasons_page
from berth.policy.fields import crd
from berth.policy.fields import page as fields_page
from berth.serving import metrics_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_page_of_the_configuration_is_made_from_the_table() -> None:
    assert (DOCS / "configuration.md").read_text() == pages.page()


def test_the_page_of_the_metrics_is_made_from_the_table() -> None:
    assert (DOCS / "metrics.md").read_text() == metrics_page.page()


def test_the_page_of_the_fields_of_policies_is_made_from_the_tables() -> None:
    assert (DOCS / "policy-fields.md").read_text() == fields_page.page()
    assert "(policy-fields.md)" in (DOCS / "policies.md").read_text()


def test_the_page_of_reasons_is_made_from_the_table() -> None:
    assert (DOCS / "reasons.md").read_text() == reasons_page.page()
    assert "(reasons.md)" in (DOCS / "explanations.md").read_text()


def test_the_definition_of_policies_is_made_from_the_tables_and_the_chart_has_the_same() -> None:
    name = "schedulingpolicies.berth.dev.yaml"
    assert (ROOT / "crds" / name).read_text() == crd.text()
    assert (ROOT / "charts" / "berth" / "files" / name).read_text() == crd.text()


def test_running_berth_leads_to_the_pages() -> None:
    text = (DOCS / "operations.md").read_text()
    assert "(configuration.md)" in text
    assert "(metrics.md)" in text
