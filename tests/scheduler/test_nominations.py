"""What we decided about nominations, beside what the cluster shows meanwhile."""

from dataclasses import replace

from berth.model import Pod, parse_pod
from berth.scheduler.cache.nominations import Nominations
from support.builders import make_pod

WEB = parse_pod(make_pod("web"))


def shown(node_name: str, version: int) -> Pod:
    return replace(WEB, nominated_node_name=node_name, resource_version=str(version))


def report(nominations: Nominations, pod: Pod) -> str:
    """The cluster shows the pod so; the node that it waits for then."""
    nominations.show(pod)
    return nominations.of(pod)


def test_what_the_cluster_shows_is_not_what_an_earlier_decision_of_ours_said() -> None:
    nominations = Nominations()
    nominations.decide(shown("", 1), "a")
    nominations.decide(shown("a", 1), "b")  # the record has the earlier decision in it
    assert nominations.take_back() == {WEB.uid: ""}


def test_an_older_report_than_our_write_does_not_take_the_nomination_back() -> None:
    nominations = Nominations()
    number = nominations.decide(shown("", 5), "a")
    nominations.written(WEB.uid, number, "7")
    assert report(nominations, shown("", 6)) == "a"
    assert report(nominations, shown("a", 7)) == "a"
    assert report(nominations, shown("", 8)) == ""


def test_the_answer_to_an_earlier_write_says_nothing_of_a_later_decision() -> None:
    nominations = Nominations()
    number = nominations.decide(shown("", 5), "a")
    nominations.decide(shown("a", 5), "b")
    nominations.written(WEB.uid, number, "7")
    assert report(nominations, shown("a", 7)) == "b"
