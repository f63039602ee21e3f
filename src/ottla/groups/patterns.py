"""Regular expressions as groups need them: a compiler is handed in, and says what is wrong with a pattern.

A client's pattern must be matched in time that is linear in the text, so Python's own `re` is no such compiler.
"""

from __future__ import annotations

from collections.abc import Callable

Matcher = Callable[[str], bool]
"""Whether a pattern matches the whole of a text."""
PatternCompiler = Callable[[str], Matcher]
"""Raises BadPattern."""


class BadPattern(ValueError):
    """A pattern that cannot be matched; says why in a sentence."""


def no_engine(pattern: str) -> Matcher:
    """The compiler where there is no engine."""
    raise BadPattern("this broker has no engine for regular expressions; subscribe by names")
