"""Checks of what third-party plugins return, for each method of the plugin contract.

A check gets the plugin, the method's result and its arguments. It returns the answer to use, in which columns are
copied so that the plugin cannot change them later; or it raises InvalidAnswer.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.answer_cache.equivalence import Axis, EquivalenceGroups
from berth.engine.plugin import MAX_SCORE, FilterPlugin, Plugin, PluginFailed, ScorePlugin
from berth.engine.state.nominated_rows import NominatedRows
from berth.engine.state.state import State
from berth.engine.verdict import Code, Int64Column, PreFilter, Rows, Verdicts, row_count

T = TypeVar("T")
Check = Callable[..., Any]

_LONGEST_WORDS = 300
_LAST_CODE = max(Code)


class InvalidAnswer(Exception):
    """A method returned something invalid; the text completes the sentence "filter() gave ..."."""


def in_words(error: BaseException) -> str:
    """Returns the exception as text, with the file and line that raised it."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if len(text) > _LONGEST_WORDS:
        text = f"{text[:_LONGEST_WORDS]}..."
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


class _Contract(FilterPlugin, ScorePlugin):
    """Every method of the contract, as it is if a plugin does not override it."""


def has_own(kind: type[Plugin], method: str) -> bool:
    """Whether the class has this method of the contract, and overrides it."""
    return getattr(kind, method, None) not in (None, getattr(_Contract, method))


def column_of(answer: object, dtype: type[np.generic], length: int) -> NDArray[Any]:
    """Returns a copy of the column if it has this type and length."""
    if not isinstance(answer, np.ndarray) or answer.dtype != dtype or answer.shape != (length,):
        raise InvalidAnswer(f"{show(answer)}, not {np.dtype(dtype).name}[{length}]")
    return answer.copy()


def _verdicts(plugin: Plugin, answer: object, query: Any, state: State | None, rows: Rows) -> Verdicts:
    if not isinstance(answer, Verdicts):
        raise InvalidAnswer(f"{show(answer)}, not Verdicts")
    codes = column_of(answer.codes, np.int8, row_count(rows))
    if len(codes) and (codes.min() < 0 or codes.max() > _LAST_CODE):
        raise InvalidAnswer(
            f"codes from {codes.min()} to {codes.max()}: berth.engine.verdict.Code has 0 to {_LAST_CODE}"
        )

    def causes() -> Int64Column:
        return _later(plugin, "causes of filter()", lambda: column_of(answer.causes, np.int64, len(codes)))

    def describe(cause: int) -> tuple[str, ...]:
        return _later(plugin, "describe() of filter()", lambda: _texts(answer.describe(cause)))

    return Verdicts(codes, causes, describe)


def _verdicts_with_free(
    plugin: Plugin, answer: object, query: Any, free: NDArray[np.int64], allocatable: NDArray[np.int64]
) -> Verdicts:
    return _verdicts(plugin, answer, query, None, slice(0, free.shape[1]))


def _verdicts_with(
    plugin: Plugin, answer: object, query: Any, state: State, nominated: NominatedRows
) -> Verdicts | None:
    return None if answer is None else _verdicts(plugin, answer, query, state, nominated.rows)


def _affected(plugin: Plugin, answer: object, query: Any, nominated: NominatedRows) -> NDArray[np.bool_]:
    return column_of(answer, np.bool_, len(nominated.rows))


def _later(plugin: Plugin, what: str, ask: Callable[[], T]) -> T:
    """Calls a plugin's function for causes or reasons, which runs later, when a diagnosis is made."""
    try:
        return ask()
    except InvalidAnswer as wrong:
        raise PluginFailed(plugin.name, f"{what} gave {wrong}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # third-party code may raise anything
        raise PluginFailed(plugin.name, f"{what} raised {in_words(error)}") from error


def _texts(answer: object) -> tuple[str, ...]:
    if not isinstance(answer, tuple | list) or not answer or not all(isinstance(text, str) for text in answer):
        raise InvalidAnswer(f"{show(answer)}, not a tuple of reasons")
    return tuple(answer)


def _pre_filter(plugin: Plugin, answer: object, *given: Any) -> PreFilter:
    if not isinstance(answer, PreFilter):
        raise InvalidAnswer(f"{show(answer)}, not a PreFilter")
    if answer.code is not Code.FITS:
        _texts(answer.reasons)
    nodes: Any = answer.nodes
    if nodes is not None and not (isinstance(nodes, frozenset) and all(isinstance(name, str) for name in nodes)):
        raise InvalidAnswer(f"{show(nodes)} for nodes, not a frozenset of names")
    return answer


def _scores(plugin: Plugin, answer: object, query: Any, state: State, rows: Rows) -> Int64Column:
    """Any numbers if they are normalised later, else 0 to 100."""
    scores = column_of(answer, np.int64, row_count(rows))
    return scores if _normalises(type(plugin)) else _in_range(scores)


def _score_of_row(plugin: Plugin, answer: object, *given: Any) -> int:
    score = _whole(plugin, answer)
    if not _normalises(type(plugin)) and not 0 <= score <= MAX_SCORE:
        raise InvalidAnswer(f"{score}, not 0 to {MAX_SCORE}")
    return score


def _normalises(kind: type[Plugin]) -> bool:
    return has_own(kind, "normalize") or has_own(kind, "bounds")


def _normalised(plugin: Plugin, answer: object, scores: Int64Column) -> Int64Column:
    return _in_range(column_of(answer, np.int64, len(scores)))


def _scaled(plugin: Plugin, answer: object, scores: Int64Column, bounds: Any) -> Int64Column:
    """Clips to 0..100: infeasible nodes are scaled by the bounds of feasible ones, and may be outside."""
    return column_of(answer, np.int64, len(scores)).clip(0, MAX_SCORE)


def _in_range(scores: NDArray[Any]) -> Int64Column:
    if len(scores) and (scores.min() < 0 or scores.max() > MAX_SCORE):
        raise InvalidAnswer(f"scores from {scores.min()} to {scores.max()}, not 0 to {MAX_SCORE}")
    return scores


def _whole(plugin: Plugin, answer: object, *given: Any) -> int:
    if not isinstance(answer, int | np.integer) or isinstance(answer, bool):
        raise InvalidAnswer(f"{show(answer)}, not a whole number")
    return int(answer)


def _flag(plugin: Plugin, answer: object, *given: Any) -> bool:
    if not isinstance(answer, bool | np.bool_):
        raise InvalidAnswer(f"{show(answer)}, not True or False")
    return bool(answer)


def _hashable(plugin: Plugin, answer: Any, *given: Any) -> Any:
    try:
        hash(answer)
    except TypeError:
        raise InvalidAnswer(f"{show(answer)}, which has no hash") from None
    return answer


def _bounds(plugin: Plugin, answer: Any, *given: Any) -> Any:
    if answer is None:
        raise InvalidAnswer("None: what the normalised scores depend on, or no bounds() at all")
    return _hashable(plugin, answer)


def _affected_rows(plugin: Plugin, answer: Any, query: Any, state: State, *given: Any) -> list[int] | None:
    if answer is None:
        return None
    rows = [_whole(plugin, row) for row in answer]
    if any(not 0 <= row < state.table.span for row in rows):
        raise InvalidAnswer(f"rows that there are not, from {min(rows)} to {max(rows)} of {state.table.span}")
    return rows


def _axes(plugin: Plugin, answer: Any, query: Any, state: State) -> Sequence[Axis] | None:
    """Returns the same object, not a copy: the cache compares by identity to detect a change."""
    if answer is None:
        return None
    if not isinstance(answer, list | tuple) or not answer or not all(isinstance(axis, Axis) for axis in answer):
        raise InvalidAnswer(f"{show(answer)}, not axes")
    if any(axis.column(state.table.rows).min(initial=0) < 0 for axis in answer):
        raise InvalidAnswer("the domains of a label that not every node has")
    return answer


def _group_scores(plugin: Plugin, answer: object, query: Any, state: State, groups: EquivalenceGroups) -> Int64Column:
    if not isinstance(answer, np.ndarray) or answer.dtype != np.int64 or answer.shape != groups.shape:
        raise InvalidAnswer(f"{show(answer)}, not int64{list(groups.shape)}")
    if not _normalises(type(plugin)):
        _in_range(answer[groups.feasible > 0])
    return answer.copy()


def _normalised_groups(plugin: Plugin, answer: Any, query: Any, state: State, groups: EquivalenceGroups) -> list[int]:
    if not isinstance(answer, list | tuple) or len(answer) != len(groups.inhabited):
        raise InvalidAnswer(f"{show(answer)}, not {len(groups.inhabited)} scores")
    _in_range(np.array([_whole(plugin, score) for score in answer]))
    return list(answer)


def _rows_with_pods(plugin: Plugin, answer: object, query: Any, state: State) -> NDArray[np.bool_] | None:
    return None if answer is None else column_of(answer, np.bool_, state.table.capacity)


def _failures(plugin: Plugin, answer: object) -> tuple[int, str]:
    if not isinstance(answer, tuple) or [type(part) for part in answer] != [int, str]:
        raise InvalidAnswer(f"{show(answer)}, not a number and a text")
    return answer[0], answer[1]


def show(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"{answer.dtype.name}{list(answer.shape)}"
    if answer is None or isinstance(answer, bool | int | float | str):
        return repr(answer)[:_LONGEST_WORDS]
    return f"a {type(answer).__name__}"


CHECKS: Mapping[str, Check] = {
    "concerns": _flag,
    "pre_filter": _pre_filter,
    "filter": _verdicts,
    "filter_with_free": _verdicts_with_free,
    "filter_with_nominated": _verdicts_with,
    "affected_by_nominated": _affected,
    "fits_row": _flag,
    "fits_without": _flag,
    "pre_score": _flag,
    "score": _scores,
    "score_row": _score_of_row,
    "bounds": _bounds,
    "scale": _scaled,
    "normalize": _normalised,
    "score_groups": _group_scores,
    "normalized_groups": _normalised_groups,
    "take_failures": _failures,
    "hint": _flag,
    "hint_key": _hashable,
    "admits": _flag,
}
"""By method of the contract."""

DEPENDENCY_CHECKS: Mapping[str, Check] = {
    "static_key": _hashable,
    "filter_version": _hashable,
    "score_version": _hashable,
    "affected_rows": _affected_rows,
    "rows_with_pods": _rows_with_pods,
    "score_axes": _axes,
}
"""By field of Dependencies."""
