"""Alerts and the dashboard: on metrics that there are, each alert with a runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml

from berth.configuration import Options
from berth.runtime import make_runtime
from berth.serving.metrics import render as render_metrics
from chart.rendering import CHART, ROOT, Manifest, Values, render
from chart.value_sets import EVERYTHING, MONITORED

ALERTS: list[Manifest] = [
    rule for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: Manifest = json.loads((CHART / "files" / "dashboard.json").read_text())
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
METRIC = re.compile(r"\b((?:berth|scheduler)_[a-z_]+)\b")
SUFFIXES = ("_bucket", "_sum", "_count")
# Of Prometheus itself.
OTHERS = {"up"}


def served() -> set[str]:
    """The names of Berth's metrics, those of counters with their ending."""
    text = render_metrics(lambda: {}).decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    return {f"{name}{suffix}" for name, kind in kinds.items() for suffix in _endings(kind)}


def _endings(kind: str) -> tuple[str, ...]:
    return ("", *SUFFIXES) if kind == "histogram" else ("",)


def expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    variables = [each["definition"] for each in DASHBOARD["templating"]["list"] if "definition" in each]
    return [*(str(alert["expr"]) for alert in ALERTS), *panels, *variables]


def test_alerts_and_panels_ask_for_metrics_that_berth_has() -> None:
    asked = {name for expression in expressions() for name in METRIC.findall(_without_labels(expression))}
    assert asked - served() == set()


@pytest.mark.parametrize("expression", [each for each in expressions() if not each.startswith("label_values(")])
def test_an_expression_is_one_that_prometheus_can_read(expression: str) -> None:
    filled = expression.replace("SELECTOR", 'job="berth"').replace("$__rate_interval", "5m")
    promql_parser.parse(filled)  # raises ValueError


def _without_labels(expression: str) -> str:
    return re.sub(r"\{[^}]*\}|\bby \([^)]*\)", "", expression)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_the_runbook_is(alert: Manifest) -> None:
    assert alert["labels"]["severity"] in ("info", "warning", "critical")
    assert set(alert["annotations"]) == {"summary", "description"}
    assert "{SELECTOR" in alert["expr"]
    assert re.search(rf"^## {alert['alert']}$", RUNBOOKS, re.MULTILINE), "docs/runbooks.md has no such heading"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
async def test_an_alert_on_what_increases_sees_the_first_time(alert: Manifest, tmp_path: Path) -> None:
    """Prometheus takes the first value of a series for where it began: it has to be 0, or the series known as new."""
    runtime = make_runtime(Options(kubeconfig=str(tmp_path / "kubeconfig"), standalone=True))
    scraped = render_metrics(runtime.statistics).decode()
    for name in re.findall(r"(?:increase|rate)\((\w+_total)", str(alert["expr"])):
        born = f"({name}{{SELECTOR}} unless max_over_time({name}{{SELECTOR}}[1h] offset 15m)) or increase({name}"
        assert re.search(rf"^{name}\S* 0\.0$", scraped, re.MULTILINE) or born in alert["expr"], name


def test_pods_that_wait_for_volumes_are_seen_where_none_was_ever_bound() -> None:
    (alert,) = (alert for alert in ALERTS if alert["alert"] == "BerthVolumesSlow")
    assert str(alert["expr"]).endswith(" or vector(0)) == 0")


def test_every_runbook_is_about_an_alert_and_has_its_three_parts() -> None:
    headings = re.findall(r"^## (Berth\w+)$", RUNBOOKS, re.MULTILINE)

    assert headings == [alert["alert"] for alert in ALERTS]
    for part in re.split(r"^## ", RUNBOOKS, flags=re.MULTILINE)[1:]:
        if part.startswith("Berth"):
            assert [part.count(f"**{word}.**") for word in ("Means", "Look", "Do")] == [1, 1, 1], part[:40]


def test_alerts_are_about_the_release_s_own_series() -> None:
    rules = _rendered(MONITORED)

    assert set(rules) == {alert["alert"] for alert in ALERTS}
    for rule in rules.values():
        assert 'namespace="berth-system",job="berth"' in rule["expr"]
        assert "SELECTOR" not in rule["expr"]


def test_alerts_name_their_runbooks_by_url_where_there_is_one() -> None:
    assert all("runbook_url" not in rule["annotations"] for rule in _rendered(MONITORED).values())

    for name, rule in _rendered(EVERYTHING).items():
        assert rule["annotations"]["runbook_url"] == f"https://example.com/runbooks.md#{name.lower()}"


def test_alerts_can_be_left_out_and_carry_labels_of_your_own() -> None:
    rules = _rendered(EVERYTHING)

    assert "BerthEventsLost" not in rules
    assert {rule["labels"]["team"] for rule in rules.values()} == {"platform"}


def _rendered(values: Values) -> dict[str, Manifest]:
    groups = render(values).one("PrometheusRule")["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_the_dashboard_is_json_in_a_config_map_that_grafana_finds() -> None:
    found = render(MONITORED).one("ConfigMap", "berth-dashboard")

    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["berth.json"]) == DASHBOARD


def test_every_panel_has_a_title_a_text_and_a_query() -> None:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in panels:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["targets"]
        for target in panel["targets"]:
            assert 'namespace=~"$namespace",job=~"$job"' in target["expr"]
