"""Compares the page of rules with the code: each cited rule is on the page, each rule names existing tests."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "rules.md"
SECTION = re.compile(r"^### ([A-H]\d+)\. .+$", re.MULTILINE)
CITED = re.compile(r"\b[Rr]ules?\s+(?:#\s*)?([A-H]\d+(?:(?:,|\s+and|\s+to|\s+or)\s+[A-H]\d+)*)")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rules() -> dict[str, str]:
    """The text of each rule on the page, by its name."""
    heads = list(SECTION.finditer(PAGE.read_text()))
    ends = [head.start() for head in heads[1:]] + [len(PAGE.read_text())]
    return {head[1]: PAGE.read_text()[head.end() : end] for head, end in zip(heads, ends, strict=True)}


def cited() -> Iterator[tuple[str, Path]]:
    files = [path for room in ("src", "tests", "tools", "bench") for path in sorted((ROOT / room).rglob("*.py"))]
    for path in [*files, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "ARCHITECTURE.md"]:
        for citation in CITED.finditer(path.read_text()):
            yield from ((rule, path) for rule in re.findall(r"[A-H]\d+", citation[1]))


@cache
def functions(path: Path) -> frozenset[str]:
    found = ast.walk(ast.parse(path.read_text()))
    return frozenset(each.name for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_rule_that_is_cited_is_on_the_page() -> None:
    known = rules()
    assert not [f"{path.relative_to(ROOT)} cites rule {rule}" for rule, path in cited() if rule not in known]


def test_every_rule_names_tests_that_exist() -> None:
    for rule, text in rules().items():
        named = NAMED.findall(text)
        assert named, f"rule {rule} names no test"
        for path, test in named:
            assert (ROOT / path).exists() and test in functions(ROOT / path), f"rule {rule} names {path}::{test}"


def test_rules_stand_in_order_and_once() -> None:
    names = SECTION.findall(PAGE.read_text())
    assert names == sorted(set(names), key=lambda name: (name[0], int(name[1:])))
