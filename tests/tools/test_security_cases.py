"""The page of security cases names tests that exist, for every kind; and secrets are compared as they should be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tools.named_tests import NAMED, collected_from

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "security-cases.md"
_SECRET = re.compile(r"(?:password|proof|signature|verifier|stored_key|secret|digest|hmac)$")


def rows(page: str) -> dict[str, str]:
    """The tests' cell of each row, by its kind."""
    cells = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return {kind.strip(): tests.strip() for kind, _, tests in cells[1:]}


def unproved(page: str) -> Iterator[str]:
    for kind, tests in rows(page).items():
        named = NAMED.findall(tests)
        if not named and not tests.startswith("none: "):
            yield f"{kind!r} names no test"
        for path, test in named:
            if test not in collected_from(ROOT / path):
                yield f"{kind!r} names {path}::{test}"


def test_every_kind_names_tests_that_exist() -> None:
    page = PAGE.read_text()
    assert len(rows(page)) > 20
    assert not list(unproved(page))


def test_a_kind_without_a_test_and_a_test_that_is_gone_are_found() -> None:
    page = PAGE.read_text() + "| a | | |\n| b | | `tests/tools/test_rules.py::test_gone` |\n"
    assert list(unproved(page)) == ["'a' names no test", "'b' names tests/tools/test_rules.py::test_gone"]


def by_equals(tree: ast.AST) -> Iterator[str]:
    """Comparisons by == of what has a secret's name: they end at the first byte that differs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            for side in (node.left, *node.comparators):
                name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
                if _SECRET.search(name) and not any(isinstance(each, ast.Constant) for each in node.comparators):
                    yield f"{ast.unparse(node)}"


def test_secrets_are_compared_in_the_same_time_wherever_they_differ() -> None:
    rooms = ("access", "tls", "broker/requests", "wire", "config", "web")
    files = [path for room in rooms for path in (ROOT / "src" / "ottla" / room).rglob("*.py")]
    found = [f"{path.name}: {each}" for path in files for each in by_equals(ast.parse(path.read_text()))]
    assert found == []
    assert list(by_equals(ast.parse("known.password == given"))) == ["known.password == given"]
