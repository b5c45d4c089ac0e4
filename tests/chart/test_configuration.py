"""The configuration that the chart renders is one that Berth takes, key by key."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from berth.configuration.gates import GATES
from chart.rendering import CHART, Values, render
from chart.value_sets import VALUE_SETS
from control_plane.berth_process import berth_command


def test_the_chart_knows_every_gate_of_the_program_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    gates = schema["properties"]["config"]["properties"]["featureGates"]

    assert gates["properties"] == {gate.name: {"type": "boolean"} for gate in GATES}
    assert gates["additionalProperties"] is False


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_berth_takes_every_key_with_its_value(values: Values, tmp_path: Path) -> None:
    wanted = render(values).configuration
    path = tmp_path / "berth.yaml"
    path.write_text(yaml.safe_dump(wanted))

    command = [*berth_command(), "run", f"--config={path}", "--write-config-to=-"]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    in_effect = yaml.safe_load(done.stdout)
    gates = wanted.pop("featureGates", {})
    assert gates.items() <= in_effect.pop("featureGates").items()
    assert wanted.items() <= in_effect.items()
