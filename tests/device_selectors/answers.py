"""What kube-scheduler's code says of the expressions: true, false, {"compileError": true} or the text of an error."""

import json
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("answers.json")


def recorded() -> list[dict[str, Any]]:
    """One answer for each expression, in their order; made anew with `python -m device_selectors.answers`."""
    answers: list[dict[str, Any]] = json.loads(ANSWERS.read_text())
    return answers


def record() -> None:
    """Asks upstream and writes what it says."""
    from conformance.oracle.tables import answers, require_tables
    from device_selectors.expressions import DEVICE, DRIVER, EXPRESSIONS

    require_tables()
    said = answers({"expression": each, "driver": DRIVER, "device": DEVICE} for each in EXPRESSIONS)
    short = [{"compileError": True} if "compileError" in answer else answer for answer in said]
    ANSWERS.write_text("[\n" + ",\n".join(json.dumps(answer) for answer in short) + "\n]\n")


if __name__ == "__main__":
    record()
