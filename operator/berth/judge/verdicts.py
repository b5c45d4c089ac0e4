"""The verdict on one pod: every plugin by itself, then the whole pipeline."""

from typing import Any

from berth.engine.diagnosis import Opinion
from berth.engine.pipeline import Pipeline, Ranking
from berth.engine.plugin import FilterPlugin, Query
from berth.engine.preemption.preemption import Preemption, cheapest
from berth.engine.state.state import State
from berth.engine.verdict import Code, row_numbers
from berth.judge.cases import CannotJudge
from berth.model import Pod

Json = dict[str, Any]


def verdict_on(pod: Pod, pipeline: Pipeline, state: State, preemption: Preemption | None) -> Json:
    """`preemption` None: pods that find no node make no room for themselves."""
    query = Query(pod, state.table)
    opinions = [_alone(plugin, query, state) for plugin in pipeline.filters]
    for opinion in opinions:
        if opinion.pre_filter.unsupported:
            raise CannotJudge("; ".join(opinion.pre_filter.reasons))
    names = [state.table.name(int(row)) for row in row_numbers(state.table.rows)]
    verdict: Json = {
        "preFilter": {o.plugin.name: _pre_filter(o) for o in opinions if _is_telling(o)},
        "filter": {o.plugin.name: refused for o in opinions if (refused := _refusals(o, names))},
    }
    survey = pipeline.survey(query, state)
    feasible = row_numbers(survey.rows)[survey.fits]
    verdict["feasible"] = sorted(state.table.name(int(row)) for row in feasible)
    if len(feasible):
        return verdict | _scores(pipeline, state, pipeline.rank(query, state, feasible))
    if preemption is None:
        return verdict
    found = preemption.candidates(pipeline, query, survey, state)
    candidates = {
        n.node: {"victims": [pod.key for pod in n.victims], "pdbViolations": n.violations}
        for n in (candidate.nominate() for candidate in found)
    }
    selected = [nomination.node for nomination in cheapest(found)] if found else []
    return verdict | {"preemption": {"candidates": candidates, "selected": selected}}


def _alone(plugin: FilterPlugin, query: Query, state: State) -> Opinion:
    """The plugin asked by itself, on every node."""
    answer = plugin.pre_filter(query, state)
    asked = not answer.skip and answer.code is Code.FITS and len(state.table)
    return Opinion(plugin, answer, plugin.filter(query, state, state.table.rows) if asked else None)


def _is_telling(opinion: Opinion) -> bool:
    return opinion.pre_filter.code is not Code.FITS or opinion.pre_filter.nodes is not None


def _pre_filter(opinion: Opinion) -> Json:
    answer = opinion.pre_filter
    said: Json = {"code": answer.code.kubernetes_name, "reasons": list(answer.reasons)}
    return said | ({"nodes": sorted(answer.nodes)} if answer.nodes is not None else {})


def _refusals(opinion: Opinion, names: list[str]) -> Json:
    if opinion.verdicts is None:
        return {}
    return {
        names[position]: {
            "code": Code(code).kubernetes_name,
            "reasons": list(opinion.verdicts.reasons(position)),
        }
        for position, code in enumerate(opinion.verdicts.codes.tolist())
        if code != Code.FITS
    }


def _scores(pipeline: Pipeline, state: State, ranking: Ranking) -> Json:
    names = [state.table.name(int(row)) for row in ranking.rows]
    columns = zip(pipeline.scores, ranking.scores, strict=True)
    return {
        "score": {
            plugin.name: dict(zip(names, column.tolist(), strict=True))
            for (plugin, _), column in columns
            if column is not None
        },
        "weight": {plugin.name: weight for plugin, weight in pipeline.scores},
        "total": dict(zip(names, ranking.totals.tolist(), strict=True)),
        "best": [state.table.name(int(row)) for row in pipeline.best(ranking, state.table)],
    }
