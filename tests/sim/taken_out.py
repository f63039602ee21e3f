"""Makes copies of the source with one or a few edits."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "ottla"


def copy_without(edits: Iterable[tuple[str, str, str]], place: Path) -> Path:
    """Make a tree for PYTHONPATH with each edit (file, old, new) applied; `old` occurs exactly once in its file."""
    shutil.copytree(SOURCE, place / "ottla", ignore=shutil.ignore_patterns("__pycache__", "spark", "demo", "cli"))
    for file, old, new in edits:
        path = place / "ottla" / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} is written otherwise now: mend the edit"
        path.write_text(text.replace(old, new))
    return place
