"""Copies of the source with something taken out of them, each one edit or a few."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "ottla"


def copy_without(edits: Iterable[tuple[str, str, str]], place: Path) -> Path:
    """A tree for PYTHONPATH in which each (file, old, new) is carried out; `old` occurs exactly once in its file."""
    shutil.copytree(SOURCE, place / "ottla", ignore=shutil.ignore_patterns("__pycache__", "spark", "demo", "cli"))
    for file, old, new in edits:
        path = place / "ottla" / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} is written otherwise now: mend the edit"
        path.write_text(text.replace(old, new))
    return place
