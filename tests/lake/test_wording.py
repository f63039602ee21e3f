"""Refusals name flags on the command line, and keyword arguments in Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ottla import lake
from ottla.lake.options import OPTIONS
from ottla.lake.rounds.known import wording
from ottla.lake.wording import keywords, told_in_keywords


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("5 offsets are gone: --accept-loss skips them", "5 offsets are gone: `accept_loss=True` skips them"),
        ("--registry URL, or --schema FILE: one of them", "`registry=URL`, or `schema=FILE`: one of them"),
        ("it was made with --no-json, not with --json", "it was made with `json=False`, not with `json=True`"),
        ("--from: 5 is not an offset", "`beginning`: 5 is not an offset"),
        ("Use the same options, or another --to", "Use the same options, or another `to`"),
        ("now with --read-uncommitted, then without", "now with `read_committed=False`, then without"),
        ("--partition-by month: no such field", "`partition_by` month: no such field"),
        ("give --master URL; a--b stays", "give --master URL; a--b stays"),
    ],
)
def test_a_flag_becomes_its_keyword(flags: str, told: str) -> None:
    assert keywords(flags) == told


def test_a_line_of_progress_from_python_names_keywords() -> None:
    lines: list[str] = []
    told_in_keywords(lines.append)(
        f"from now on loads go {wording('read_committed', False)}, {wording('where', 'n > 1')}"
    )
    assert lines == ["from now on loads go with `read_committed=False`, with `where` n > 1"]


def test_every_flag_that_the_lake_speaks_of_is_one_of_a_load() -> None:
    """A load begun from Python turns these, and only these, into keywords."""
    spoken = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
    root = Path(lake.__file__).parent
    files = [each for each in root.rglob("*.py") if not {"commands", "audit"} & set(each.parts)]
    texts = [
        (file.name, node.value)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    left = {(name, flag) for name, text in texts for flag in spoken.findall(keywords(text)) if flag != "--config"}
    assert left == set()


def test_every_option_has_its_keyword() -> None:
    assert [option.name for option in OPTIONS if not keywords(option.spelt).startswith(f"`{option.name}")] == []


def test_a_load_from_python_is_refused_in_keywords_and_a_command_in_flags() -> None:
    with pytest.raises(lake.LakeRefused, match=r"^`registry` takes http:// and https:// URLs, got 'ftp://x'$"):
        lake.load("t", to="nowhere", values="avro", registry="ftp://x")
    given = {"every": None, "continuous": False, "spark": None, "stop": None}
    with pytest.raises(lake.LakeRefused, match=r"^--registry takes http:// and https:// URLs, got 'ftp://x'$"):
        lake.load_for_command("t", to="nowhere", values="avro", registry="ftp://x", **given)  # type: ignore[arg-type]
