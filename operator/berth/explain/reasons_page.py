"""docs/reasons.md, made from the table of reasons: `python -m berth.explain.reasons_page`."""

import sys
from typing import Final

from berth.explain.reasons import KINDS, ReasonKind

HEAD: Final = """# Reasons

<!-- Made by `make docs` from the table of reasons (operator/berth/explain/reasons.py); edit that, not this. -->

Why a node rejects a pod: the codes in the field `status.reasons[].code` of an [explanation](explanations.md), with the
messages of kube-scheduler that they stand for. Codes are stable: scripts and dashboards may rely on them. The messages
are kube-scheduler's own, to the letter, where it has one;
three dots stand for a name.

| code | plugins | message | meaning | what helps |
|---|---|---|---|---|
"""


def page() -> str:
    """Returns the page."""
    return HEAD + "".join(_row(kind) for kind in sorted(KINDS, key=lambda kind: kind.code))


def _row(kind: ReasonKind) -> str:
    messages = [f"`{text}`" for text in kind.texts]
    cells = (f"`{kind.code}`", ", ".join(kind.plugins), "; ".join(messages) or "its own", kind.meaning, kind.helps)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
