"""Finds Protobuf sources that nest braces too deep. protoc itself overflows its stack at great depths."""

from __future__ import annotations

import re

MAX_NESTING = 100
"""protoc refuses messages that are nested more than 32 deep, but sets no bound to the values of options."""
_TOKENS = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\[^\n]|[^\"\\\n])*\"?|'(?:\\[^\n]|[^'\\\n])*'?|[{<\[(]|[}>\])]", re.DOTALL
)
_OPENING, _CLOSING = "{<[(", "}>])"


def is_too_deep(source: str) -> bool:
    """True if brackets outside of comments and strings are nested more than `MAX_NESTING` deep."""
    depth = 0
    for token in _TOKENS.finditer(source):
        if token[0] in _OPENING:
            depth += 1
            if depth > MAX_NESTING:
                return True
        elif token[0] in _CLOSING and depth:
            depth -= 1
    return False
