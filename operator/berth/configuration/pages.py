"""docs/configuration.md, made from the table: `python -m berth.configuration.pages`."""

import sys

from berth.configuration.file import API_VERSION, KIND, render
from berth.configuration.flags import CONFIG_TEXT, WRITE_FLAG, WRITE_TEXT, usage_of
from berth.configuration.gates import GATES
from berth.configuration.options import Options
from berth.configuration.reading import CONFIG_FLAG, CONFIG_VARIABLE
from berth.configuration.settings import SETTINGS, Setting
from berth.configuration.values import Switch

HEAD = f"""# Configuration

<!-- Made by `make docs` from the table of settings (operator/berth/configuration); edit that, not this page. -->

What decides where pods go is in [SchedulingPolicies](policies.md), which take effect when they are applied. This page
is about the process: the settings that it starts with. Each setting can be given as a flag of `berth run`, as an
environment variable, or in a file; a flag wins over its variable, the variable over the file, the file over the
default. Of the feature gates each one is looked up so by itself. An empty variable is one that is not set, except for
addresses, which it switches off.

| flag | variable | meaning |
|---|---|---|
| `{CONFIG_FLAG} FILE` | `{CONFIG_VARIABLE}` | {CONFIG_TEXT.partition(" (")[0]} |
| `{WRITE_FLAG} FILE` | | {WRITE_TEXT} |
| `--version` | | print the version and exit |

`kopf run operator/main.py` reads the same variables and the file that `{CONFIG_VARIABLE}` names; logging and flags are
kopf's then. What is in effect is logged at the start, with the version, and shown by `/configz`. Nothing in it is
secret: credentials and keys are named by their files.

What is invalid is refused at the start, with where it was written and what to write instead, all of it at once; the
exit code is 2. So are keys that are not known or there twice, words on the command line that belong to no flag, and
variables that begin with `BERTH_` and are none of these. Those by which Kubernetes tells a container of the services
`berth` and `berth-...` of its namespace pass: `BERTH_SERVICE_HOST`, `BERTH_PORT`, `BERTH_PORT_10259_TCP`,
`BERTH_METRICS_SERVICE_PORT` and their like.

## Settings

| key of the file | flag | variable | value | default | meaning |
|---|---|---|---|---|---|
"""
GATES_HEAD = """
## Feature gates

`--feature-gates A=true,B=false`, `BERTH_FEATURE_GATES`, or `featureGates: {A: true}` in the file. ALPHA: may change or
go; BETA: stays, details may change. The metric `kubernetes_feature_enabled` (labels `name` and `stage`) is 1 for each
gate that is on and 0 for each that is off. A policy that needs what is off is refused as any other invalid one:
its status names the gate, and after an edit its last good generation stays in force. `berth policy lint` and
`berth judge` know no gates: to them everything is on.

| gate | stage | default | on | off |
|---|---|---|---|---|
"""
FILE_HEAD = f"""
## The file

One YAML document, `apiVersion: {API_VERSION}`, `kind: {KIND}`. Keys that are left out have their defaults.
This is what `berth run --write-config-to -` writes where nothing is chosen:

```yaml
"""


def page() -> str:
    rows = "".join(f"| {' | '.join(_row(setting))} |\n" for setting in SETTINGS)
    gates = "".join(
        f"| `{gate.name}` | {gate.stage} | {str(gate.default).lower()} | {gate.on} | {gate.off} |\n" for gate in GATES
    )
    return f"{HEAD}{rows}{GATES_HEAD}{gates}{FILE_HEAD}{render(Options())}```\n"


def _row(setting: Setting) -> tuple[str, ...]:
    words = "`on`, `off` (file: `true`, `false`)" if isinstance(setting.kind, Switch) else setting.kind.words
    chosen = setting.default is not None and setting.default_words not in ("none", "each as documented")
    default = f"`{setting.default_words}`" if chosen else setting.default_words
    return f"`{setting.key}`", usage_of(setting), f"`{setting.variable}`", words, default, setting.text


if __name__ == "__main__":
    sys.stdout.write(page())
