"""Keeps the results of a campaign in a file, a line for each case, so that an interrupted campaign can continue.

Another run makes the same cases from the seed, but its files may have other names (a kill comes at any moment). So
cases are counted by kind, damage, stop and setting, and not by path.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.damage.campaign import Judged
from tests.damage.cases import parse
from tests.damage.values import Case, Finding, Outcome

Plan = Mapping[tuple[str, str], int]
"""The number of cases of each (kind, damage)."""


class Ledger:
    """Results, kept in a file if one is given. A line that an interrupt has cut short is ignored."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.seed: int | None = None
        self.plan: dict[tuple[str, str], int] = {}
        self._judged: dict[str, Judged] = {}
        self._made: dict[str, tuple[str, str]] = {}
        if path is not None and path.exists():
            whole, newline, _ = path.read_text().rpartition("\n")
            for line in whole.splitlines():
                self._take(json.loads(line))
            path.write_text(whole + newline)

    @property
    def results(self) -> list[Judged]:
        """The last result of each case."""
        return list(self._judged.values())

    @property
    def made(self) -> Counter[tuple[str, str]]:
        """The number of results by (commit, day)."""
        return Counter(self._made.values())

    def begin(self, seed: int, plan: Plan) -> None:
        """Write the seed and the number of cases of each kind, before the first case ends."""
        counts: dict[str, dict[str, int]] = {}
        for (kind, harm), count in plan.items():
            counts.setdefault(kind, {})[harm] = max(count, self.plan.get((kind, harm), 0))
        self._write({"seed": seed, "plan": counts})

    def add(self, judged: Judged, commit: str, day: str) -> None:
        self._write(
            {
                "case": judged.case.name,
                "commit": commit,
                "day": day,
                "seconds": round(judged.outcome.took_s, 1),
                "findings": judged.findings,
            }
        )

    def _write(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(f"{line}\n")
        self._take(json.loads(line))

    def _take(self, entry: dict[str, Any]) -> None:
        if "seed" in entry:
            self.seed = entry["seed"]
            self.plan |= {(kind, harm): n for kind, harms in entry["plan"].items() for harm, n in harms.items()}
            return
        name = entry["case"]
        findings = [Finding(word, what) for word, what in entry["findings"]]
        self._judged[name] = Judged(parse(name), findings, Outcome(took_s=entry["seconds"]))
        self._made[name] = (entry["commit"], entry["day"])


def planned(cases: Iterable[Case]) -> Counter[tuple[str, str]]:
    return Counter((case.kind, case.harm) for case in cases)


def without(cases: Sequence[Case], settled: Iterable[Judged]) -> list[Case]:
    """The cases without those that are settled."""
    done = Counter(_cell(judged.case) for judged in settled)
    left = []
    for case in cases:
        if done[_cell(case)]:
            done[_cell(case)] -= 1
        else:
            left.append(case)
    return left


def _cell(case: Case) -> tuple[str, str, str, str]:
    return case.kind, case.harm, case.stop, case.setting
