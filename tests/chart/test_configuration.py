"""The configuration that the chart renders is one that Berth takes, key by key."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from chart.rendering import Values, render
from chart.value_sets import VALUE_SETS
from control_plane.berth_process import berth_command


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
