"""The tests that a page names, and those that there are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

NAMED = re.compile(r"`(tests/[^`]*?)::([^`]*)`")
"""A test on a page: its file, and its name."""


@cache
def collected_from(path: Path) -> dict[str, str]:
    """The source of each test that pytest collects from a file, by its name."""
    if not path.name.startswith("test_") or not path.exists():
        return {}
    text = path.read_text()
    return {
        each.name: ast.get_source_segment(text, each) or ""
        for each in ast.parse(text).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_")
    }
