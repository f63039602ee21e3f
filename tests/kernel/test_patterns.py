"""Patterns match what Python's own expressions match, in linear time, and faulty ones give an error."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.patterns import BadPattern, compile_pattern

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\W", "-", r"\.", "1", r"\d", "(?:ab)", "(a|b)", "^", "$", r"\b", r"\B", ""]
)
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}", "*?"])


def grown(patterns: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeated = st.tuples(patterns, REPEATS).map(lambda parts: f"(?:{parts[0]}){parts[1]}")
    joined = st.lists(patterns, min_size=1, max_size=3).map("".join)
    either = st.tuples(patterns, patterns).map("|".join).map(lambda text: f"({text})")
    return st.one_of(repeated, joined, either)


@settings(deadline=None, max_examples=400, database=None)
@given(pattern=st.recursive(ATOMS, grown, max_leaves=6), texts=st.lists(st.text("ab-1._", max_size=6), max_size=8))
def test_a_pattern_matches_what_python_matches(pattern: str, texts: list[str]):
    theirs = re.compile(pattern, re.ASCII)
    ours = compile_pattern(pattern)
    for text in [*texts, *texts, ""]:
        if not text and r"\B" in pattern:
            continue  # Python before 3.14 finds no such place in an empty text
        assert ours(text) == (theirs.fullmatch(text) is not None), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^orders-.*", ["orders-", "orders-eu"], ["orders", "xorders-"]),
        ("orders|pay.*", ["orders", "payments"], ["order", "orders2"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["a.b+", "axb"]),
        ("(?i)Orders", ["orders", "ORDERS"], ["orderz"]),
        ("a(?i:b)c", ["abc", "aBc"], ["ABC", "abC"]),
        ("(?i)a(?-i)b", ["ab", "Ab"], ["AB"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        ("[[:alpha:]_]+[^[:digit:]]", ["ab", "a_-"], ["a1", "1a"]),
        ("[]a-]+", ["]", "a-]"], ["b"]),
        (r"[\d.]{1,3}", ["1", "1.2"], ["", "1.23"]),
        (r"\pL+\p{Nd}", ["aä1"], ["1", "a"]),
        (r"\x41\x{42}\061", ["AB1"], ["ab1"]),
        (r"\Aa\z", ["a"], ["b"]),
        (r"[^\W]", ["a"], ["-"]),
        ("", [""], ["a"]),
        ("a||b", ["a", "", "b"], ["ab"]),
        ("x{2}y{,2}", ["xxy{,2}"], ["xxyy"]),
        ("日本.*", ["日本語"], ["日"]),
    ],
)
def test_the_syntax_is_that_of_re2(pattern: str, matching: list[str], others: list[str]):
    matches = compile_pattern(pattern)
    assert [text for text in matching if not matches(text)] == []
    assert [text for text in others if matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "[a", "[b-a]", "*", "a**", "a++", "a{2}{3}", "a{1001}", "a{3,2}", r"\1", r"(a)\1", "(?=a)",
        "(?<!a)b", "(?>a)", "(?x)a", r"\Z", r"\h", "\\", "[[:nope:]]", r"\x{110000}",
        "(((a{100}){100}){100}){100}", "((((){1000}){1000}){1000}){1000}", "a" * 20_000,
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_matched_is_refused(pattern: str):
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


def test_patterns_that_explode_elsewhere_take_linear_steps():
    """Each text costs at most its length times the size of the pattern, however the pattern is made."""
    for pattern in ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*a.*)*b", "(a?){30}a{30}b"]:
        matches = compile_pattern(pattern)
        assert not matches("a" * 249) and matches("a" * 30 + "b")


def test_a_pattern_that_needs_more_memory_than_it_gets_still_matches():
    matches = compile_pattern("(a|b)*a(a|b){12}")
    texts = [f"{number:016b}".replace("0", "a").replace("1", "b") for number in range(4_000)]
    assert all(matches(text) == (text[-13] == "a") for text in texts)
