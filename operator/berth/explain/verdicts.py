"""Every plugin's verdict on some nodes, one by one. Only here the cost grows with the number of nodes asked about."""

from collections.abc import Sequence

import numpy as np

from berth.engine.diagnosis import Opinion
from berth.engine.verdict import Code, Verdicts
from berth.explain.judgement import Judgement
from berth.explain.reasons import code_of
from berth.explain.records import NodeVerdict, PluginVerdict


def verdicts_on(judgement: Judgement, names: Sequence[str]) -> list[NodeVerdict]:
    """Returns the verdicts on these nodes, in this order; unknown nodes are left out."""
    found = [(name, row) for name in names if (row := judgement.table.row(name)) is not None]
    rows = np.array([row for _, row in found], dtype=np.intp)
    said = [_said(judgement, opinion, rows) for opinion in judgement.opinions]
    verdicts = []
    for number, (name, _) in enumerate(found):
        plugins = tuple(column[number] for column in said if column is not None)
        fits = bool(plugins or judgement.survey) and all(verdict.status == "Success" for verdict in plugins)
        verdicts.append(NodeVerdict(name, fits, plugins))
    return verdicts


def _said(judgement: Judgement, opinion: Opinion, rows: "np.typing.NDArray[np.intp]") -> list[PluginVerdict] | None:
    """Returns the plugin's verdict on each row; None if it has nothing to say about the pod."""
    plugin, screened = opinion.plugin, opinion.pre_filter
    if screened.code is not Code.FITS:
        return [_verdict(opinion, screened.code, screened.reasons)] * len(rows)
    if screened.skip:
        return None
    verdicts = _of_survey(judgement, opinion, rows)
    if verdicts is None:
        verdicts = plugin.filter(judgement.query, judgement.state, rows)
    return [
        _verdict(opinion, Code(int(code)), verdicts.reasons(at) if code else ())
        for at, code in enumerate(verdicts.codes.tolist())
    ]


def _of_survey(judgement: Judgement, opinion: Opinion, rows: "np.typing.NDArray[np.intp]") -> Verdicts | None:
    """Returns the survey's verdicts, which count nominated pods; None if the filter was not asked about all rows."""
    if opinion.verdicts is None:
        return None
    position = np.full(judgement.table.capacity, -1, dtype=np.intp)
    position[judgement.rows] = np.arange(len(judgement.rows))
    places = position[rows]
    return opinion.verdicts.at(places) if (places >= 0).all() else None


def _verdict(opinion: Opinion, code: Code, texts: tuple[str, ...]) -> PluginVerdict:
    codes = tuple(dict.fromkeys(code_of(opinion.plugin, text, code) for text in texts))
    return PluginVerdict(opinion.plugin.name, code.kubernetes_name, codes, texts)
