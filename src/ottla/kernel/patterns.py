"""Regular expressions that clients send, in RE2's syntax: matched in time linear in the text, by `google-re2`.

Apache Kafka's coordinators match them with RE2/J (KIP-848). A pattern matches the whole of a text or does not match.
"""

from __future__ import annotations

from collections.abc import Callable

Matcher = Callable[[str], bool]
"""True if a pattern matches the whole of a text."""
PatternCompiler = Callable[[str], Matcher]
"""Raises BadPattern."""

_LONGEST = 10_000
_MOST_BYTES = 1 << 20
"""Memory of one pattern: one that needs more is refused, or matched in another way that takes longer."""


class BadPattern(ValueError):
    """A pattern that cannot be matched; says why in a sentence."""


def compile_pattern(pattern: str) -> Matcher:
    """Raise BadPattern where the pattern is not in the syntax, or would take too much memory."""
    import re2  # here: most brokers never meet a pattern

    if len(pattern) > _LONGEST:
        raise BadPattern("the pattern is too large")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as fault:
        raise BadPattern(_reason(fault)) from None
    return lambda text: compiled.fullmatch(text) is not None


def _reason(fault: Exception) -> str:
    first = fault.args[0] if fault.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(fault)
