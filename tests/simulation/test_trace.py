"""What is shown of a run that has failed."""

from simulation.trace import SHOWN, SHOWN_OF_ALL, Trace


def traced() -> Trace:
    trace = Trace(lambda: 1.0)
    for number in range(100):
        trace.note(f"about a pod {number}", "red/pod")
        trace.note(f"about another {number}", "red/other")
        trace.note(f"about everything {number}")
    return trace


def test_the_lines_about_the_subjects_are_shown_and_what_happened_to_everything() -> None:
    shown = traced().about(["red/pod"])
    assert sum("about a pod" in line for line in shown) == SHOWN
    assert sum("about everything" in line for line in shown) == SHOWN_OF_ALL
    assert not any("about another" in line for line in shown)


def test_what_is_shown_is_in_the_order_in_which_it_happened() -> None:
    shown = traced().about(["red/pod"])
    assert shown[-2:] == ["     1.000  about a pod 99", "     1.000  about everything 99"]


def test_without_a_subject_the_last_lines_are_shown() -> None:
    assert len(traced().about(())) == SHOWN
