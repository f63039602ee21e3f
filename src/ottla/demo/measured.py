"""Numbers that a program of the pipeline leaves in its folder for the demo's page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

EVENTS, DELAYS = Path("events.json"), Path("delays.json")
ANSWER = Path("delays.parquet")
"""The rows of the query's answer."""


@dataclass(frozen=True, slots=True)
class DemoSpeed:
    """Rows that went through, and the seconds that it took."""

    rows: int
    seconds: float

    def keep(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> DemoSpeed:
        return cls(**json.loads(path.read_text(encoding="utf-8")))
