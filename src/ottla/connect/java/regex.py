"""Java's regular expressions and replacements, put into Python's. A form that is not known is refused when it is read.

Python's `re` knows the same constructs under nearly the same names. Those that it reads in another way are translated;
those that it lacks raise ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.connect.errors import DataException

_POSIX: Final = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": r"\x20-~", "Blank": r" \t", "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F", "Space": r" \t\n\x0b\f\r",
}  # fmt: skip
"""Members of the classes that `\\p{...}` names; classes of Unicode are not known."""
_ESCAPES: Final = {
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000", "v": r"\n\x0b\f\r\x85\u2028\u2029", "e": r"\x1b",
    "d": "0-9", "w": "a-zA-Z_0-9", "s": r" \t\n\x0b\f\r",
}  # fmt: skip
_KEPT: Final = frozenset("tnrfabB")
_GROUP_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_FLAGS = re.compile(r"([a-zA-Z]*)(-[a-zA-Z]+)?([:)])")
_COUNT = re.compile(r"\d+(,\d*)?\}")
_LINE_END = r"(?:\r\n|[\n\r\u2028\u2029\u0085])"


def compiled(pattern: str) -> re.Pattern[str]:
    """A Java regular expression for Python, or ValueError with a sentence."""
    try:
        return re.compile(_Translation(pattern).whole(), re.ASCII)
    except (re.error, RecursionError) as fault:
        raise ValueError(_said(pattern, fault)) from None


def _said(pattern: str, fault: Exception) -> str:
    """Java's words for the most frequent mistake, else Python's."""
    if isinstance(fault, re.error) and "unterminated subpattern" in str(fault):
        return f"Unclosed group near index {len(pattern)}\n{pattern}"
    return f"{fault}\n{pattern}"


@dataclass(slots=True)
class _Translation:
    """Reads a Java pattern from left to right."""

    text: str
    at: int = 0
    dot_is_all: bool = False

    def whole(self) -> str:
        """The same pattern for Python."""
        made = []
        while self.at < len(self.text):
            made.append(self._next())
        return "".join(made)

    def _take(self, count: int = 1) -> str:
        taken = self.text[self.at : self.at + count]
        if len(taken) < count:
            raise ValueError(f"Unexpected end of the regular expression near index {self.at}\n{self.text}")
        self.at += count
        return taken

    def _next(self) -> str:
        char = self._take()
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._class()
        if char == "(" and self.text.startswith("?", self.at):
            return self._group()
        if char == "$":
            return rf"(?={_LINE_END}?\Z)"
        if char == ".":
            return "(?s:.)" if self.dot_is_all else r"[^\n\r\u0085\u2028\u2029]"
        if char == "{" and not _COUNT.match(self.text, self.at):
            raise ValueError(f"Illegal repetition near index {self.at - 1}\n{self.text}")
        return char

    def _refuse(self, what: str) -> ValueError:
        return ValueError(f"{what} near index {self.at} is not supported\n{self.text}")

    def _group(self) -> str:
        self._take()
        if self.text.startswith("<", self.at) and self.text[self.at + 1 : self.at + 2] not in ("=", "!"):
            self._take()
            name = _GROUP_NAME.match(self.text, self.at)
            if name is None or not self.text.startswith(">", name.end()):
                raise ValueError(f"named capturing group is missing trailing '>' near index {self.at}\n{self.text}")
            self.at = name.end() + 1
            return f"(?P<{name[0]}>"
        for opening in ("<=", "<!", ":", "=", "!", ">"):
            if self.text.startswith(opening, self.at):
                self.at += len(opening)
                return f"(?{opening}"
        flags = _FLAGS.match(self.text, self.at)
        if flags is None:
            raise ValueError(f"Unknown inline modifier near index {self.at}\n{self.text}")
        on, off, end = flags.groups()
        at_start = self.at == 2
        self.at = flags.end()
        if end == ":" and set(on + (off or "-")[1:]) <= {"i"}:
            return f"(?{flags[0]}"
        if end == ")" and at_start and not off and set(on) <= {"i", "s"}:
            self.dot_is_all = "s" in on
            return f"(?{on})" if on else ""
        raise self._refuse(f"the inline modifier (?{flags[0]}")

    def _escape(self) -> str:
        """A backslash and its letter outside a class."""
        char = self._take()
        if char == "k" and self.text.startswith("<", self.at):
            end = self.text.find(">", self.at)
            if end < 0:
                raise ValueError(f"named group reference is missing trailing '>' near index {self.at}\n{self.text}")
            name, self.at = self.text[self.at + 1 : end], end + 1
            return f"(?P={name})"
        if char in "123456789":
            return f"(?:\\{char})"
        if char == "A":
            return r"\A"
        if char == "z":
            return r"\Z"
        if char == "Z":
            return rf"(?={_LINE_END}?\Z)"
        if char == "R":
            return rf"(?:{_LINE_END}|[\x0b\f])"
        if char == "Q":
            return re.escape(self._quoted())
        if char in "bB":
            return f"\\{char}"
        members, negated = self._members(char)
        return f"[{'^' if negated else ''}{members}]"

    def _quoted(self) -> str:
        """The text up to the end of a quotation."""
        end = self.text.find("\\E", self.at)
        quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
        self.at = len(self.text) if end < 0 else end + 2
        return quoted

    def _members(self, char: str) -> tuple[str, bool]:
        """The characters that an escape stands for, and whether it means all others."""
        if char in "pP":
            name = self._braced() if self.text.startswith("{", self.at) else self._take()
            if name not in _POSIX:
                raise self._refuse(f"the character class \\{char}{{{name}}}")
            return _POSIX[name], char == "P"
        if char.lower() in _ESCAPES and (char.islower() or char != "E"):
            return _ESCAPES[char.lower()], char.isupper()
        if char == "x":
            digits = self._braced() if self.text.startswith("{", self.at) else self._take(2)
            return self._point(digits), False
        if char == "u":
            return self._point(self._take(4)), False
        if char == "0":
            octal = re.compile(r"[0-3]?[0-7]{1,2}").match(self.text, self.at)
            if octal is None:
                raise ValueError(f"Illegal octal escape sequence near index {self.at}\n{self.text}")
            self.at = octal.end()
            return re.escape(chr(int(octal[0], 8))), False
        if char == "c":
            return re.escape(chr(ord(self._take()) ^ 64)), False
        if char in _KEPT - {"b", "B"}:
            return f"\\{char}", False
        if char.isascii() and char.isalpha():
            raise ValueError(f"Illegal/unsupported escape sequence near index {self.at - 1}\n{self.text}")
        return re.escape(char), False

    def _point(self, digits: str) -> str:
        try:
            return re.escape(chr(int(digits, 16)))
        except (ValueError, OverflowError):
            raise ValueError(f"Illegal hexadecimal escape sequence near index {self.at}\n{self.text}") from None

    def _braced(self) -> str:
        end = self.text.find("}", self.at)
        if end < 0:
            raise ValueError(f"Unclosed character family near index {len(self.text)}\n{self.text}")
        inner, self.at = self.text[self.at + 1 : end], end + 1
        return inner.removeprefix("Is") if inner.removeprefix("Is") in _POSIX else inner

    def _class(self) -> str:
        """A class in brackets. Java's nested classes and intersections have no counterpart."""
        made = ["["]
        if self.text.startswith("^", self.at):
            made.append(self._take())
        first = True
        while self.at < len(self.text):
            char = self._take()
            if char == "]" and not first:
                return "".join(made) + "]"
            first = False
            if char == "[" or (char == "&" and self.text.startswith("&", self.at)):
                raise self._refuse("a character class inside another, or an intersection of classes,")
            if char == "\\":
                char = self._take()
                if char == "Q":
                    made.append(re.escape(self._quoted()))
                    continue
                members, negated = self._members(char)
                if negated:
                    members = {"D": r"\D", "W": r"\W", "S": r"\S"}.get(char, "")
                    if not members:
                        raise self._refuse(f"the negated class \\{char} inside a class")
                made.append(members)
            else:
                made.append(char if char == "-" else re.escape(char))
        raise ValueError(f"Unclosed character class near index {len(self.text) - 1}\n{self.text}")


Replacement = Callable[[re.Match[str]], str]


def replacement(template: str, groups: int, names: frozenset[str]) -> Replacement:
    """A Java replacement (`$1`, `${name}`, `\\$`) as a function of a match.

    A group that the pattern lacks fails at the first match, as in Java: the function raises then.
    """
    parts: list[Callable[[re.Match[str]], str]] = []
    at = 0
    while at < len(template):
        char, at = template[at], at + 1
        if char == "\\":
            if at == len(template):
                return _failing("character to be escaped is missing")
            parts.append(_literal(template[at]))
            at += 1
        elif char == "$":
            part, at = _group_reference(template, at, groups, names)
            parts.append(part)
        else:
            parts.append(_literal(char))
    return lambda match: "".join(part(match) for part in parts)


def _group_reference(template: str, at: int, groups: int, names: frozenset[str]) -> tuple[Replacement, int]:
    """One `$1` or `${name}`; further digits belong to it while there is such a group."""
    if template.startswith("{", at):
        name = _GROUP_NAME.match(template, at + 1)
        if name is None or not template.startswith("}", name.end()):
            return _failing("named capturing group is missing trailing '}'"), len(template)
        known = name[0] in names
        return (_of(name[0]) if known else _failing(f"No group with name {{{name[0]}}}")), name.end() + 1
    if at == len(template):
        return _failing("Illegal group reference: group index is missing"), at
    if template[at] not in "0123456789":
        return _failing("Illegal group reference"), at + 1
    number, at = int(template[at]), at + 1
    if number > groups:
        return _failing(f"No group {number}", "java.lang.IndexOutOfBoundsException"), at
    while at < len(template) and template[at] in "0123456789" and number * 10 + int(template[at]) <= groups:
        number, at = number * 10 + int(template[at]), at + 1
    return _of(number), at


def _literal(char: str) -> Replacement:
    return lambda match: char


def _of(group: str | int) -> Replacement:
    return lambda match: match[group] or ""


class BadReplacement(DataException):
    """A replacement refers to a group that the pattern does not have."""

    java_class = "java.lang.IllegalArgumentException"


class NoSuchGroup(BadReplacement):
    """A replacement refers to a group by a number that the pattern does not have."""

    java_class = "java.lang.IndexOutOfBoundsException"


def _failing(message: str, java_class: str = BadReplacement.java_class) -> Replacement:
    kind = NoSuchGroup if java_class == NoSuchGroup.java_class else BadReplacement

    def fail(match: re.Match[str]) -> str:
        raise kind(message)

    return fail
