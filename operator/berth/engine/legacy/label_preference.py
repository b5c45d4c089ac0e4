"""LabelPreference: scores nodes 100 if they have a label (or if they lack it), and 0 otherwise.

Arguments: label (its key), presence (true: nodes with the label get 100; false, the default: nodes without it).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from berth.engine.legacy.arguments import require_flag, require_label
from berth.engine.plugin import MAX_SCORE, Dependencies, Query, ScorePlugin, refuse_unknown
from berth.engine.state.state import State
from berth.engine.verdict import Int64Column, Rows


class LabelPreference(ScorePlugin):
    name = "LabelPreference"
    dependencies = Dependencies(static_key=lambda pod: ())

    def __init__(self, args: Mapping[str, Any]) -> None:
        refuse_unknown(args, "label", "presence")
        self._label = require_label(args, "label")
        self._presence = require_flag(args, "presence")

    def score(self, query: Query, state: State, rows: Rows) -> Int64Column:
        ids, _ = state.table.label(self._label)
        liked = (ids[rows] >= 0) == self._presence
        return np.where(liked, np.int64(MAX_SCORE), np.int64(0))
