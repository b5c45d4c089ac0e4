"""docs/metrics.md, made from the table: `python -m berth.serving.metrics_page`."""

import sys

from berth.scheduler.measures import ATTEMPT_SECONDS, ATTEMPTS, POINT_SECONDS, WAIT_SECONDS
from berth.serving.metric import Definition
from berth.serving.metric_table import SECTIONS

HEAD = """# Metrics

<!-- Made by `make docs` from the table of metrics (operator/berth/serving/metric_table.py); edit that, not this. -->

`/metrics`, in the Prometheus text format. Names that begin with `scheduler_` and `kubernetes_` are those of
kube-scheduler 1.36, with its types, labels and buckets, so that its dashboards and alerts work; a test compares them
with the real one. Names that begin with `berth_` are Berth's own. `profile` is what it is there: the schedulerName of
the pod.

Every label takes its values from a bounded set, so that neither many policies nor odd names fill a Prometheus server.
Where there are more names than a label may have values, the rest are `(others)`, together.

Of the `berth_*` counters, those whose labels' values are known beforehand are there with 0 from the start, so that
`increase` sees the first time, too; so is `scheduler_schedule_attempts_total` for every scheduler name that is served.
Faults, failures of policies and names that others choose begin when they first count.
"""
TAIL = f"""
## Buckets

| histogram | upper bounds |
|---|---|
| `scheduler_scheduling_attempt_duration_seconds` | {ATTEMPT_SECONDS[0]:g} to {ATTEMPT_SECONDS[-1]:g}, doubling |
| `scheduler_pod_scheduling_sli_duration_seconds` | {WAIT_SECONDS[0]:g} to {WAIT_SECONDS[-1]:g}, doubling |
| `scheduler_framework_extension_point_duration_seconds` | {POINT_SECONDS[0]:g} to {POINT_SECONDS[-1]:g}, doubling |
| `scheduler_pod_scheduling_attempts` | {ATTEMPTS[0]:g} to {ATTEMPTS[-1]:g}, doubling |
| `scheduler_preemption_victims` | 1 to 64, doubling |
"""


def page() -> str:
    parts = [HEAD]
    for title, rows in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
        parts += [_row(definition) for definition in rows]
    return "".join([*parts, TAIL])


def _row(definition: Definition) -> str:
    labels = "; ".join(f"`{name}`: {words}" for name, words in definition.labels.items())
    return f"| `{definition.name}` | {definition.type} | {labels} | {definition.text} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
