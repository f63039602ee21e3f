"""Reads what Java calls a properties file: comments, continued lines, three separators, escapes."""

from __future__ import annotations

from collections.abc import Iterator

_SHORT_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_HEX = frozenset("0123456789abcdefABCDEF")


def parse_properties(text: str) -> dict[str, str]:
    """Key to value; of a key that comes twice the last value stays. ValueError on a broken \\u escape."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        found[_unescape(line[:end])] = _unescape(rest)
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines joined where one ends in an odd number of backslashes; without comments and empty ones."""
    pending = ""
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _end_of_key(line: str) -> int:
    escaped = False
    for position, letter in enumerate(line):
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter in "=:" or letter in _BLANK:
            return position
    return len(line)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter != "\\" or position == len(text):
            parts.append(letter)
            continue
        letter = text[position]
        position += 1
        if letter == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or not set(digits) <= _HEX:
                raise ValueError(f"broken \\u escape in {text!r}")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_SHORT_ESCAPES.get(letter, letter))
    try:
        # Java writes a character beyond U+FFFF as two escapes.
        return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError(f"half a character in {text!r}") from None
