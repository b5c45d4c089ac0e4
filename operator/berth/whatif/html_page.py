"""A result as one HTML file: pictures are inline, nothing is loaded from anywhere, light and dark follow the reader."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from berth.policy.wording import list_names
from berth.whatif.pictures import heat_map, spread_bars, zone_bars
from berth.whatif.result import Result, WorkloadResult
from berth.whatif.text import departure_lines, explanation_lines, summary, usage_rows
from berth.whatif.wording import by_node, by_zone, change

SHOWN_WORKLOADS: Final = 200  # with a picture each
STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --faint: #57606a;
  --bad: #b42318; --good: #116329; --before: #8c959f; --after: #0969da; --track: #eaeef2;
  --l0: #eaeef2; --l1: #cfe3f7; --l2: #9ec5ee; --l3: #62a0e0; --l4: #2f7bcb; --l5: #175596; --l6: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --faint: #9198a1;
  --bad: #ff7b72; --good: #56d364; --before: #6e7681; --after: #4493f8; --track: #21262d;
  --l0: #21262d; --l1: #12324f; --l2: #174a78; --l3: #1f6ab0; --l4: #3b8eea; --l5: #8bc0ff; --l6: #ff7b72; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; } td.n, th.n { text-align: right; }
.faint { color: var(--faint); } .bad { color: var(--bad); } .good { color: var(--good); }
.side { display: flex; flex-wrap: wrap; gap: 2rem; } figure { margin: 0; } figcaption { color: var(--faint); }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
.before { fill: var(--before); } .after { fill: var(--after); } .track { fill: var(--track); }
.level0 { fill: var(--l0); } .level1 { fill: var(--l1); } .level2 { fill: var(--l2); } .level3 { fill: var(--l3); }
.level4 { fill: var(--l4); } .level5 { fill: var(--l5); } .level6 { fill: var(--l6); }
.cordoned { fill: none; stroke: var(--faint); stroke-dasharray: 2 2; }
"""
HEADS: Final = ("Namespace", "Workload", "Pods", "Placed", "Pending", "Zones", "Nodes", "Skew")


def as_html(result: Result) -> str:
    """Returns the page."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>berth simulate</title><style>{STYLE}</style></head><body><main>",
        *_head(result),
        *_workloads(result.workloads),
        *_use(result),
        *_notes(result),
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _head(result: Result) -> Iterator[str]:
    tone = "good" if result.everything_fits else "bad"
    yield f'<h1>What if</h1><p class="{tone}"><strong>{escape(summary(result))}</strong></p>'
    origin = f"{result.source}, seed {result.seed}" if result.source else f"seed {result.seed}"
    yield f'<p class="faint">{escape(origin)}</p>'
    if result.steps:
        yield _list(result.steps)
    if result.filled is not None:
        filled = result.filled
        yield f"<p>{filled.count:,} more of {escape(filled.workload.label)} fit. {escape(filled.message)}</p>"
        if filled.count:
            yield spread_bars({}, filled.spread.zones, "Pods that fit, by zone")
    for blocked in result.blocked:
        yield f'<p class="bad">{escape(f"{blocked.pod} stays on {blocked.node}: {blocked.message}")}</p>'


def _workloads(workloads: Sequence[WorkloadResult]) -> Iterator[str]:
    if not workloads:
        return
    heads = "".join(f'<th scope="col"{_number(place)}>{head}</th>' for place, head in enumerate(HEADS))
    yield f"<h2>Workloads</h2><table><thead><tr>{heads}</tr></thead><tbody>"
    for each in workloads:
        cells = "".join(f"<td{_number(place)}>{escape(cell)}</td>" for place, cell in enumerate(_cells(each)))
        yield f"<tr{' class=bad' if each.pending else ''}>{cells}</tr>"
        details = _details(each)
        if details:
            yield f'<tr><td></td><td colspan="{len(HEADS) - 1}" class="faint">{_list(details)}</td></tr>'
    yield "</tbody></table>"
    for each in workloads[:SHOWN_WORKLOADS]:
        if len(each.after.zones) > 1:
            title = f"{each.workload.namespace} {each.workload.label}: pods by zone, before and after"
            picture = spread_bars(each.before.zones, each.after.zones, title)
            yield f"<figure>{picture}<figcaption>{escape(title)}</figcaption></figure>"


def _cells(each: WorkloadResult) -> tuple[str, ...]:
    return (
        each.workload.namespace,
        each.workload.label,
        str(each.placed + each.pending),
        str(each.placed),
        str(each.pending),
        by_zone(each.after.zones) or "-",
        by_node(each.after.nodes),
        change(str(each.before.skew), str(each.after.skew)),
    )


def _details(each: WorkloadResult) -> list[str]:
    pending = []
    for one in each.reasons:
        pending.append(f"{len(one.pods)} pending ({list_names(one.pods, 3)}): {one.message}")
        pending += explanation_lines(one.explanation, wide=True)
    return [*pending, *departure_lines(each, wide=False)]


def _use(result: Result) -> Iterator[str]:
    head, *rows = usage_rows(result)
    heads = "".join(f'<th scope="col">{escape(cell.capitalize())}</th>' for cell in head)
    yield f"<h2>Utilisation</h2><table><thead><tr>{heads}</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table>"
    for resource in ("cpu", "memory"):
        yield f"<h2>{resource.capitalize()} by zone and node</h2>"
        yield zone_bars(result.before, result.after, resource, f"{resource} requested by zone, before and after")
        yield '<div class="side">'
        for words, usage in (("before", result.before), ("after", result.after)):
            picture = heat_map(usage, resource, f"{resource} requested on each node, {words}")
            yield f"<figure><figcaption>{words}</figcaption>{picture}</figure>"
        yield "</div>"


def _notes(result: Result) -> Iterator[str]:
    if result.notes:
        yield f"<h2>Notes</h2>{_list(result.notes)}"


def _list(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _number(place: int) -> str:
    return ' class="n"' if 2 <= place <= 4 else ""
