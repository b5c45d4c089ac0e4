"""What pages show of commands that need no cluster, or of one that is made here, is what they print."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli.actions.leader import as_text, read_seats
from berth.engine.plugin import BadArgument
from berth.policy.compile import load_policy
from berth.policy.records import PolicyError
from policy.builders import make_policy
from support.commands import exit_code, forget_settings

ROOT = Path(__file__).parents[2]
POLICIES, REPLICAS = (
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("policies.md", "high-availability.md")
)
EXAMPLES = re.findall(r"```console\n\$ berth (policy (?:lint|import) [^\n]*)\n([^$]*?)```", POLICIES, re.DOTALL)
COLUMNS = [line for line in POLICIES.splitlines() if line.startswith("NAME ")]
SEEN = {"leads": ("2026-01-01T12:00:00Z", 1.2), "standby 1": ("", 0.4), "standby 2": ("", 2.9)}


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_lint_and_import_print_what_the_page_shows(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_settings(monkeypatch)
    monkeypatch.chdir(ROOT / "examples" / "checking")
    exit_code(*shlex.split(command))
    assert capsys.readouterr().out == shown


def test_both_commands_have_an_example() -> None:
    assert {command.split()[1] for command, _ in EXAMPLES} == {"lint", "import"}


@pytest.mark.parametrize("shown", COLUMNS)
def test_the_columns_of_policies_are_those_of_the_kind(shown: str) -> None:
    """kubectl prints those of a priority above 0 with -o wide only."""
    definition = yaml.safe_load((ROOT / "crds" / "schedulingpolicies.berth.dev.yaml").read_text())
    columns: list[dict[str, Any]] = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    is_wide = "HASH" in shown
    expected = ["NAME", *(each["name"].upper() for each in columns if is_wide or not each.get("priority"))]
    assert re.split(r" {2,}", shown) == expected


def test_a_name_that_is_no_plugin_gets_the_message_that_the_page_shows() -> None:
    patch = re.search(r"""-p '(\{"spec":\{"priorities".*?)'\n""", POLICIES)
    assert patch is not None
    with pytest.raises(PolicyError) as refused:
        load_policy(make_policy("binpack", **yaml.safe_load(patch[1])["spec"]))
    [problem] = refused.value.problems
    assert f"\n{problem}\n" in POLICIES


def test_an_argument_of_a_plugin_gets_the_message_that_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples" / "berth-plugin-rack-power" / "src")
    with pytest.raises(BadArgument) as refused:
        import_module("berth_rack_power.rack_power")._watts(0, "maxWatts")
    shown = f"\nspec.predicates[0].args.{refused.value.field}: {refused.value.problem}\n"
    assert shown in (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")


def test_leader_prints_what_the_page_shows() -> None:
    shown = re.search(r"^\$ berth leader\n(.*?)```", REPLICAS, re.MULTILINE | re.DOTALL)
    assert shown is not None
    now = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)
    rows = [(line[:10].strip(), line[10:].split()[0]) for line in shown[1].splitlines()[1:]]
    status = {
        identity: {
            "priority": 100 - place,
            "lifetime": 10,
            "lastseen": (now - timedelta(seconds=SEEN[role][1])).isoformat(),
            **({"leadingSince": SEEN[role][0]} if SEEN[role][0] else {}),
        }
        for place, (role, identity) in enumerate(rows)
    }
    assert as_text(read_seats({"status": status}, now), True, now) + "\n" == shown[1]
