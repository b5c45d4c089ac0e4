"""What README shows is valid."""

import re
from pathlib import Path

from berth.cli import main

ROOT = Path(__file__).parents[2]


def test_the_policies_of_the_readme_are_valid_together(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    shown = [block for block in blocks if "kind: SchedulingPolicy" in block]
    file = tmp_path / "policies.yaml"
    file.write_text("---\n".join(shown))
    assert len(shown) == 3
    assert main(["policy", "lint", str(file)]) == 0
