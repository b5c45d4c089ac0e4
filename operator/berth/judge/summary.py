"""What became of the cases of a run: by theme, which is what stands before the first dash of a case's id."""

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from berth.judge.agreement import differences

Json = dict[str, Any]

_TOLD_OF_A_THEME = 3
_LONGEST_WORDS = 400


@dataclass(slots=True)
class _Theme:
    cases: int = 0
    errors: int = 0
    compared: int = 0
    agreeing: int = 0
    told: list[str] = field(default_factory=list)

    def tell(self, case: Json, words: str) -> None:
        if len(self.told) < _TOLD_OF_A_THEME:
            cut = words if len(words) <= _LONGEST_WORDS else words[:_LONGEST_WORDS] + " ..."
            self.told.append(f"{case.get('id')}: {cut}")


class Summary:
    def __init__(self) -> None:
        self._begun = perf_counter()
        self._themes: dict[str, _Theme] = {}

    def add(self, case: Json, verdict: Json, *, compared: bool) -> None:
        """`compared`: with what the case expects, where it says so."""
        theme = self._themes.setdefault(str(case.get("id", "?")).split("-")[0], _Theme())
        theme.cases += 1
        theme.errors += "error" in verdict
        if compared and isinstance(case.get("expect"), dict):
            theme.compared += 1
            said = list(differences(case["expect"], verdict))
            theme.agreeing += not said
            if said:
                theme.tell(case, said[0])
        elif "error" in verdict:
            theme.tell(case, f"error: {verdict['error']}")

    @property
    def cases(self) -> int:
        return sum(theme.cases for theme in self._themes.values())

    @property
    def errors(self) -> int:
        return sum(theme.errors for theme in self._themes.values())

    @property
    def differing(self) -> int:
        return sum(theme.compared - theme.agreeing for theme in self._themes.values())

    def text(self) -> str:
        """A headline, a line a theme, and the first cases that failed or differ."""
        seconds = perf_counter() - self._begun
        rate = f"{60 * self.cases / seconds:,.0f} a minute" if seconds else "at once"
        lines = [f"{self.cases:,} cases in {seconds:.1f} s ({rate}), {self.errors:,} without a verdict"]
        compared = sum(theme.compared for theme in self._themes.values())
        if compared:
            lines[0] += f"; {compared - self.differing:,} of {compared:,} as expected"
        row = "  {:<16} {:>8} {:>9} {:>8} {:>12}".format
        lines += ["", row("theme", "cases", "verdicts", "errors", "as expected")]
        for name, theme in self._themes.items():
            agreeing = f"{theme.agreeing}/{theme.compared}" if theme.compared else "-"
            lines.append(row(name, theme.cases, theme.cases - theme.errors, theme.errors, agreeing))
        told = [line for theme in self._themes.values() for line in theme.told]
        if told:
            lines += ["", "The first of each theme that failed or differ:", *(f"  {line}" for line in told)]
        return "\n".join(lines) + "\n"
