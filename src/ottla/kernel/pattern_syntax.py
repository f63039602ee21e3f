"""Reads regular expressions in RE2's syntax into trees. What cannot be matched in linear time is not in the syntax."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from typing import NamedTuple

_DEEPEST = 100
_MOST_REPEATS = 1_000
_LONGEST = 10_000


class BadPattern(ValueError):
    """A pattern that cannot be matched; says why in a sentence."""


class Side(Enum):
    """A place between characters that a pattern asks for."""

    BEGIN = "^"
    END = "$"
    WORD_EDGE = r"\b"
    NO_WORD_EDGE = r"\B"


class OneOf(NamedTuple):
    """One character out of ranges of code points and of Unicode's categories, or one that is not."""

    ranges: tuple[tuple[int, int], ...]
    categories: tuple[tuple[str, bool], ...] = ()
    """Each with whether the character must not be in it."""
    negated: bool = False
    ignores_case: bool = False

    def has(self, character: str) -> bool:
        found = self._has(character)
        if not found and self.ignores_case:
            found = self._has(character.lower()) or self._has(character.upper())
        return found != self.negated

    def _has(self, character: str) -> bool:
        if len(character) != 1:
            return False
        code = ord(character)
        if any(low <= code <= high for low, high in self.ranges):
            return True
        category = unicodedata.category(character) if self.categories else ""
        return any(category.startswith(prefix) != negated for prefix, negated in self.categories)


class Sequence(NamedTuple):
    parts: tuple[Node, ...]


class Choice(NamedTuple):
    options: tuple[Node, ...]


class Repeat(NamedTuple):
    part: Node
    least: int
    most: int | None


class Empty(NamedTuple):
    """Matches nothing, everywhere."""


Node = OneOf | Side | Sequence | Choice | Repeat | Empty

_DIGIT = ((0x30, 0x39),)
_WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))
_PERL = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_NAMED = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": _WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_SIDES = {"A": Side.BEGIN, "z": Side.END, "b": Side.WORD_EDGE, "B": Side.NO_WORD_EDGE}
_LAST = 0x10FFFF
_COUNTED = re.compile(r"\{(\d{1,5})(,(\d{0,5}))?\}")
_GROUP_NAME = re.compile(r"P?<[A-Za-z_][A-Za-z0-9_]*>")
_FLAGS = re.compile(r"([imsU]*)(?:-([imsU]*))?([:)])")
_CLASS_NAME = re.compile(r"\[:(\^?)([a-z]+):\]")
_CATEGORY = re.compile(r"([pP])(?:([A-Z])|\{(\^?)([A-Z][a-z]?)\})")
_HEX = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
_OCTAL = re.compile(r"0[0-7]{0,2}")


def parse(pattern: str) -> Node:
    """The tree of a pattern; raises BadPattern."""
    if len(pattern) > _LONGEST:
        raise BadPattern(f"the pattern is longer than {_LONGEST} characters")
    reader = _Reader(pattern)
    tree = reader.choice(0)
    if not reader.at_end:
        raise BadPattern("a closing parenthesis has no opening one")
    return tree


class _Reader:
    """Goes over a pattern once. Flags hold from where they stand to the end of their group."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._place = 0
        self._ignores_case = False
        self._dot_takes_newline = False

    @property
    def at_end(self) -> bool:
        return self._place >= len(self._text)

    def choice(self, depth: int) -> Node:
        """Options up to the end of the group."""
        if depth > _DEEPEST:
            raise BadPattern("groups are nested too deep")
        options = [self._sequence(depth)]
        while self._took("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while not self.at_end and self._text[self._place] not in "|)":
            if self._took(r"\Q"):
                parts += self._quoted()
                if parts:
                    parts.append(self._repeated(parts.pop()))
            else:
                parts.append(self._repeated(self._atom(depth)))
        return Sequence(tuple(parts)) if parts else Empty()

    def _quoted(self) -> list[Node]:
        end = self._text.find(r"\E", self._place)
        text = self._text[self._place : len(self._text) if end < 0 else end]
        self._place = len(self._text) if end < 0 else end + 2
        return [self._literal(ord(character)) for character in text]

    def _repeated(self, part: Node) -> Node:
        """The repetition behind a part, and whether it is lazy, which makes no difference to a match of the whole."""
        counts = self._counts()
        if counts is None:
            return part
        least, most = counts
        self._took("?")
        if self._counts() is not None:
            raise BadPattern("a repetition stands behind a repetition")
        if isinstance(part, Side):
            return part if least else Empty()
        return Repeat(part, least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._took(sign):
                return counts
        found = _COUNTED.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise BadPattern(f"{found[0]} is no repetition from 0 to {_MOST_REPEATS}")
        return least, most

    def _atom(self, depth: int) -> Node:
        character = self._next()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return self._class()
        if character == ".":
            return OneOf(((0, _LAST),)) if self._dot_takes_newline else OneOf(((10, 10),), negated=True)
        if character == "^":
            return Side.BEGIN
        if character == "$":
            return Side.END
        if character in "*+?":
            raise BadPattern(f"{character} has nothing before it to repeat")
        if character == "\\":
            return self._escape()
        return self._literal(ord(character))

    def _group(self, depth: int) -> Node:
        kept = (self._ignores_case, self._dot_takes_newline)
        if self._took("?"):
            name = _GROUP_NAME.match(self._text, self._place)
            flags = _FLAGS.match(self._text, self._place)
            if name is not None:
                self._place = name.end()
            elif flags is None:
                raise BadPattern("look-around and other groups that begin with (? cannot be matched in linear time")
            else:
                self._place = flags.end()
                self._set_flags(flags[1], flags[2] or "")
                if flags[3] == ")":
                    return Empty()  # the flags hold for the rest of the group around
        inside = self.choice(depth + 1)
        if not self._took(")"):
            raise BadPattern("a parenthesis is not closed")
        self._ignores_case, self._dot_takes_newline = kept
        return inside

    def _set_flags(self, on: str, off: str) -> None:
        self._ignores_case = ("i" in on or self._ignores_case) and "i" not in off
        self._dot_takes_newline = ("s" in on or self._dot_takes_newline) and "s" not in off

    def _escape(self) -> Node:
        if self.at_end:
            raise BadPattern("the pattern ends in a backslash")
        character = self._text[self._place]
        if character in _SIDES:
            self._place += 1
            return _SIDES[character]
        members = self._escaped_class()
        if members is not None:
            return members
        return self._literal(self._escaped_code())

    def _escaped_class(self) -> OneOf | None:
        """The class behind a backslash, such as `d` or `p{Lu}`; None where it is no class."""
        character = self._text[self._place]
        if character.lower() in _PERL:
            self._place += 1
            return OneOf(_PERL[character.lower()], negated=character.isupper())
        found = _CATEGORY.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        negated = (found[1] == "P") != (found[3] == "^")
        return OneOf((), ((found[2] or found[4], negated),))

    def _escaped_code(self) -> int:
        for form in (_HEX, _OCTAL):
            if found := form.match(self._text, self._place):
                self._place = found.end()
                code = int(found[1] or found[2], 16) if form is _HEX else int(found[0], 8)
                if code > _LAST:
                    raise BadPattern(f"\\{found[0]} is no character")
                return code
        character = self._next()
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isalnum():
            raise BadPattern(f"\\{character} is not known; back-references cannot be matched in linear time")
        return ord(character)

    def _class(self) -> OneOf:
        negated = self._took("^")
        ranges: list[tuple[int, int]] = []
        categories: list[tuple[str, bool]] = []
        first = True
        while first or not self._took("]"):
            first = False
            named = _CLASS_NAME.match(self._text, self._place)
            if named is not None:
                self._place = named.end()
                if named[2] not in _NAMED:
                    raise BadPattern(f"{named[0]} is not a known class")
                ranges += _outside(_NAMED[named[2]]) if named[1] else _NAMED[named[2]]
                continue
            low = self._member()
            if isinstance(low, OneOf):
                ranges += _outside(low.ranges) if low.negated else low.ranges
                categories += low.categories
                continue
            ranges.append((low, self._range_end(low)))
        return OneOf(tuple(ranges), tuple(categories), negated, self._ignores_case)

    def _member(self) -> int | OneOf:
        character = self._next()
        if character != "\\":
            return ord(character)
        if self.at_end:
            raise BadPattern("the pattern ends in a backslash")
        return self._escaped_class() or self._escaped_code()

    def _range_end(self, low: int) -> int:
        if not self._text.startswith("-", self._place) or self._text.startswith("-]", self._place):
            return low
        self._place += 1
        high = self._member()
        if isinstance(high, OneOf) or high < low:
            raise BadPattern("a range in a class ends before it begins")
        return high

    def _literal(self, code: int) -> OneOf:
        return OneOf(((code, code),), ignores_case=self._ignores_case)

    def _next(self) -> str:
        if self.at_end:
            raise BadPattern("the pattern ends in the middle")
        self._place += 1
        return self._text[self._place - 1]

    def _took(self, text: str) -> bool:
        if not self._text.startswith(text, self._place):
            return False
        self._place += len(text)
        return True


def _outside(ranges: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """All that sorted ranges leave out."""
    found, start = [], 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return [*found, (start, _LAST)]
