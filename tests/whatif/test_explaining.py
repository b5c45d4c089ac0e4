"""Pods that stay pending are explained: what comes closest, whether they could ever fit, and what would help."""

import pytest

from berth.explain.records import Outlook
from berth.whatif import explaining
from berth.whatif.html_page import as_html
from berth.whatif.json_form import as_data
from berth.whatif.result import Reason, Result
from berth.whatif.text import as_text
from support.builders import make_node, make_pod
from whatif.clusters import ask, cluster, make_deployment, workload

ONE_NODE = [make_node("n", cpu=2)]
WOULD_HELP = "would help: Request 500m cpu in all instead of 750m: it fits on n."


def reason(result: Result, name: str) -> Reason:
    [found] = workload(result, name).reasons
    return found


def test_the_advice_is_about_the_cluster_after_all_pods_were_placed() -> None:
    result = ask(cluster(ONE_NODE), make_deployment("web", 4, cpu="750m"))
    explanation = reason(result, "web").explanation
    assert explanation is not None
    assert explanation.advice[0].sentence == WOULD_HELP.removeprefix("would help: ")
    [miss] = explanation.reasons[0].nearest
    assert f"{miss.node} {miss.detail}" == "n lacks 250m cpu: 750m asked for, 500m free"


def test_text_and_report_have_the_nearest_node_and_the_first_advice() -> None:
    result = ask(cluster(ONE_NODE), make_deployment("web", 4, cpu="750m"))
    lines = [line.strip() for line in as_text(result).splitlines()]
    assert lines.index("nearest: n lacks 250m cpu: 750m asked for, 500m free") + 1 == lines.index(WOULD_HELP)
    assert WOULD_HELP in as_html(result)


def test_json_has_the_complete_explanation() -> None:
    result = ask(cluster(ONE_NODE), make_deployment("web", 4, cpu="750m"))
    [said] = as_data(result)["workloads"][0]["reasons"]
    assert said["explanation"]["kind"] == "Explanation"
    assert said["explanation"]["status"]["advice"][0]["message"] in WOULD_HELP


def test_a_pod_that_no_empty_node_could_take_is_said_to_fit_never() -> None:
    result = ask(cluster(ONE_NODE), make_pod("huge", cpu=3))
    explanation = reason(result, "huge").explanation
    assert explanation is not None
    assert explanation.prospect is not None
    assert explanation.prospect.outlook is Outlook.NEVER
    assert explanation.prospect.message in as_text(result)


def test_a_scheduler_name_that_is_nearly_right_is_corrected() -> None:
    result = ask(cluster(ONE_NODE), make_pod("web", scheduler="berht"))
    assert "Did you mean berth?" in as_text(result)


def test_of_many_reasons_those_of_most_pods_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "MOST_EXPLAINED", 1)
    few, many = make_deployment("few", 1, cpu=3), make_deployment("many", 2, cpu=4)
    result = ask(cluster(ONE_NODE), few, many)
    assert reason(result, "many").explanation is not None
    assert reason(result, "few").explanation is None
    assert "few" in as_text(result)


def test_what_is_filled_does_not_count_against_pods_that_were_pending() -> None:
    """They are explained on what they found."""
    waiting = make_pod("waiting", cpu=3)
    result = ask(cluster(ONE_NODE, waiting), make_pod("small", cpu="500m"), fill=True)
    explanation = reason(result, "waiting").explanation
    assert explanation is not None
    assert "2 free" in explanation.reasons[0].nearest[0].detail
