"""Compares the page of rules with the code, in both directions.

Each rule that code, tests or documentation cite is on the page. Each rule on the page is cited by the code, or by a
test that it names, and names tests that exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.tools.named_tests import NAMED, collected_from

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "rules.md"
SECTION = re.compile(r"^### ([A-H]\d+)\. .+$", re.MULTILINE)
CITED = re.compile(r"\b[Rr]ules?\s+([A-H]\d+(?:(?:,|\s+and|\s+to|\s+or)\s+[A-H]\d+)*)|\(([A-H]\d{1,2})\)")
WRAPPED = re.compile(r"\n\s*(?:#|\*|//)?\s*")
"""A line's end, with the mark of a comment that goes on in the next line."""
TEST_OF_A_RULE = re.compile(r"def test_([a-h]\d+)_")


def rules(page: str) -> dict[str, str]:
    """The text of each rule on the page, by its name."""
    heads = list(SECTION.finditer(page))
    ends = [head.start() for head in heads[1:]] + [len(page)]
    return {head[1]: page[head.end() : end] for head, end in zip(heads, ends, strict=True)}


def citations(text: str) -> set[str]:
    """The rules that a text cites, also in the names of its tests."""
    found = {rule for cited in CITED.finditer(WRAPPED.sub(" ", text)) for rule in re.findall(r"[A-H]\d+", cited[0])}
    return found | {name.upper() for name in TEST_OF_A_RULE.findall(text)}


@cache
def cited_by_files() -> dict[Path, set[str]]:
    """The rules that each file cites, without the page itself and this test, which holds made-up ones."""
    rooms = ("src", "tests", "tools", "bench", "docs")
    files = [path for room in rooms for ending in ("py", "c", "h", "md") for path in (ROOT / room).rglob(f"*.{ending}")]
    files += ROOT.glob("*.md")
    return {path: citations(path.read_text()) for path in files if path not in (PAGE, Path(__file__).resolve())}


def unknown(page: str) -> Iterator[str]:
    """Citations of rules that are not on the page."""
    known = rules(page).keys()
    for path, cited in cited_by_files().items():
        yield from (f"{path.relative_to(ROOT)} cites rule {rule}" for rule in sorted(cited - known))
    yield from (f"the page cites rule {rule}" for rule in sorted(citations(page) - known))


def uncited(page: str) -> Iterator[str]:
    """Rules that neither the code nor a test that they name cites."""
    by_code = set().union(*(cited for path, cited in cited_by_files().items() if path.is_relative_to(ROOT / "src")))
    for rule, text in rules(page).items():
        sources = (collected_from(ROOT / path).get(test, "") for path, test in NAMED.findall(text))
        if rule not in by_code and not any(rule in citations(source) for source in sources):
            yield f"nothing cites rule {rule}"


def unproved(page: str) -> Iterator[str]:
    """Rules that name no test, and tests that are named and do not exist."""
    for rule, text in rules(page).items():
        named = NAMED.findall(text)
        if not named or len(named) != text.count("::"):
            yield f"rule {rule} names no test, or not as `tests/folder/test_file.py::test_name`"
        for path, test in named:
            if test not in collected_from(ROOT / path):
                yield f"rule {rule} names {path}::{test}"


def test_every_rule_that_is_cited_is_on_the_page() -> None:
    assert not list(unknown(PAGE.read_text()))


def test_every_rule_on_the_page_is_cited_by_the_code_or_by_a_test_that_it_names() -> None:
    assert not list(uncited(PAGE.read_text()))


def test_every_rule_names_tests_that_exist() -> None:
    assert not list(unproved(PAGE.read_text()))


def test_rules_stand_in_order_and_once() -> None:
    names = SECTION.findall(PAGE.read_text())
    assert names == sorted(set(names), key=lambda name: (name[0], int(name[1:])))


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("as rule A12 says", {"A12"}),
        ("(rules A4,\n    # A5 and\n    # B10)", {"A4", "A5", "B10"}),
        ('"""Of replicas (rule\n    H2)."""', {"H2"}),
        ("It is on disk (A2).", {"A2"}),
        ("def test_c3_commands_carry_intent(): ...", {"C3"}),
        ("a rule of A4 paper; column B12, f(A1, B2)", set()),
    ],
)
def test_citations_are_found_in_text_comments_and_names(text: str, cited: set[str]) -> None:
    assert citations(text) == cited


def test_a_rule_that_is_taken_off_the_page_is_missed() -> None:
    page = PAGE.read_text().replace("### A12. Leases", "### A99. Leases")
    found = list(unknown(page))
    assert found and all(sentence.endswith(" cites rule A12") for sentence in found)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("tests/tools/test_order.py::test_nothing_of_this_name", ["rule H99 names {named}", "nothing cites rule H99"]),
        ("tests/tools/test_nowhere.py::test_rules", ["rule H99 names {named}", "nothing cites rule H99"]),
        ("tests/tools/test_rules.py::citations", ["rule H99 names {named}", "nothing cites rule H99"]),
        ("tests/tools/test_rules.py::test_rules_stand_in_order_and_once", ["nothing cites rule H99"]),
        ("tests/tools/test_rules.py::test_h99_of_the_page_is_cited_by_this_test", []),
    ],
)
def test_a_rule_that_nothing_cites_or_proves_is_found(named: str, found: list[str]) -> None:
    page = f"{PAGE.read_text()}\n### H99. A rule\n\nIt holds.\n\nShown by `{named}`.\n"
    assert [*unproved(page), *uncited(page)] == [sentence.format(named=named) for sentence in found]


def test_h99_of_the_page_is_cited_by_this_test() -> None:
    """The only citation of that made-up rule is this test's name."""
    assert not any("H99" in cited for cited in cited_by_files().values())


def test_a_rule_without_a_test_is_found() -> None:
    page = f"{PAGE.read_text()}\n### H99. A rule\n\nIt holds, see tests/tools/test_rules.py::test_rules.\n"
    assert len(list(unproved(page))) == 1
