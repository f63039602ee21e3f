"""Expressions over records, as a search takes them: `value.amount > 100 and not header.trace = "x"`. Pure.

    expression = term { ("or") term };  term = factor { ("and") factor }
    factor     = "not" factor | "(" expression ")" | field [ sign literal ]
    field      = name { ".name" | "[n]" | "[*]" }
    name       = "key" | "value" | "$" | "header" | "partition" | "offset" | "time" | "size"
    sign       = "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"
    literal    = number | "text" | 'text' | true | false | null

A field alone is true where it is there. `~` is true where a text contains the literal, whatever its case. A field that
is not there passes `!=` and `!~` alone. `[*]` stands for any element. Times may be written as "-1h".
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.config.option import nearest
from ottla.console.values import ShownRecord
from ottla.kernel.quantities import moment_ms

Test = Callable[[ShownRecord], bool]
Needle = Callable[[bytes], bool]
FIELDS = ("key", "value", "header", "partition", "offset", "time", "size")
_NUMBERS = ("partition", "offset", "time", "size")
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SIGNS = ("=", "!=", "~", "!~", *_ORDER)
_DEEPEST = 50
_PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
_OTHER_DIGITS = re.compile(rb"[0-9.][eE][+-]?[0-9]|\.[0-9]{12}")
"""Numbers that may be equal to one of other digits."""
_LEAST_NUMBER = 100
"""Smaller numbers stand in nearly every batch."""
TURN_INTO_ASCII = ("\u212a".encode(), "\u0130".encode())
"""The sign for Kelvin and the dotted I: in lower case they hold k and i."""
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
    r"""|(?P<sign>==|!=|<=|>=|!~|&&|\|\||[=<>~!()])|(?P<step>\[\*\]|\[\d+\]|\[(?:"[^"]*"|'[^']*')\])"""
    r"""|(?P<name>\$|\.?[^\W\d][\w-]*))"""
)
_WORDS = {"&&": "and", "||": "or", "!": "not"}


class Expression(NamedTuple):
    """A test of records, and one of a batch's bytes that is true wherever a record of it passes; None: they do not say.

    A text may stand in JSON with escapes, a number with other digits: records of such bytes are read.
    """

    test: Test
    needle: Needle | None = None


class WrongExpression(ValueError):
    """The text is no expression; the message says where and what to write."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def expression(text: str, now_ms: int) -> Expression:
    """The tests that a text stands for."""
    parser = _Parser(text, list(_tokens(text)), now_ms)
    found = parser.either(0)
    if parser.next is not None:
        raise parser.wrong(f"{parser.next.text!r} is one too many: write and, or")
    return found


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise WrongExpression(f"{text!r}: {text[at:].strip()[:20]!r} is not understood; write texts in quotes")
        kind = found.lastgroup or ""
        word = found[kind]
        start, at = found.start(kind), found.end()
        if word in _WORDS:
            yield _Token("name", _WORDS[word], start)
        else:
            yield _Token("sign" if word == "==" else kind, "=" if word == "==" else word, start)


class _Parser:
    def __init__(self, text: str, tokens: Sequence[_Token], now_ms: int) -> None:
        self._text, self._tokens, self._at, self._now_ms = text, tokens, 0, now_ms

    @property
    def next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def wrong(self, sentence: str) -> WrongExpression:
        return WrongExpression(f"{self._text!r}: {sentence}")

    def either(self, depth: int) -> Expression:
        parts = self._joined("or", lambda: self._both(depth))
        needles = [part.needle for part in parts]
        if len(parts) == 1:
            return parts[0]
        known = [needle for needle in needles if needle is not None]
        needle = (lambda payload: any(each(payload) for each in known)) if len(known) == len(needles) else None
        return Expression(lambda record: any(part.test(record) for part in parts), needle)

    def _both(self, depth: int) -> Expression:
        parts = self._joined("and", lambda: self._factor(depth))
        known = [part.needle for part in parts if part.needle is not None]
        needle = (lambda payload: all(each(payload) for each in known)) if known else None
        return Expression(lambda record: all(part.test(record) for part in parts), needle)

    def _joined(self, word: str, part: Callable[[], Expression]) -> list[Expression]:
        parts = [part()]
        while self._took(word):
            parts.append(part())
        return parts

    def _factor(self, depth: int) -> Expression:
        if depth > _DEEPEST:
            raise self.wrong("it is nested too deeply")
        if self._took("not"):
            test = self._factor(depth + 1).test
            return Expression(lambda record: not test(record))
        if self._took("("):
            found = self.either(depth + 1)
            if not self._took(")"):
                raise self.wrong("a ) is missing")
            return found
        field, path = self._field()
        sign = self.next
        if sign is None or sign.kind != "sign" or sign.text not in _SIGNS:
            return Expression(lambda record: any(found is not None for found in _found(record, field, path)))
        self._at += 1
        literal = self._literal(field)
        return Expression(_comparison(field, path, sign.text, literal), _needle(field, sign.text, literal))

    def _field(self) -> tuple[str, tuple[str | int | None, ...]]:
        token = self.next
        if token is None:
            raise self.wrong("it ends too early: a field is missing")
        self._at += 1
        name = "value" if token.text == "$" else token.text
        if token.kind != "name" or name not in FIELDS:
            hint = (
                f": write value.{name}" if token.kind == "name" and not nearest(name, FIELDS) else nearest(name, FIELDS)
            )
            raise self.wrong(f"{token.text!r} is no field{hint}; there are {', '.join(FIELDS)}")
        path: list[str | int | None] = []
        while (step := self.next) is not None and (step.kind == "step" or step.text.startswith(".")):
            self._at += 1
            inner = step.text[1:-1]
            if step.kind == "name":
                path.append(step.text[1:])
            elif inner == "*":
                path.append(None)
            else:
                path.append(int(inner) if inner.isdigit() else inner[1:-1])
        if path and name in _NUMBERS:
            raise self.wrong(f"{name} is a number, it has no fields")
        if name == "header" and not path:
            raise self.wrong("write header.NAME")
        return name, tuple(path)

    def _literal(self, field: str) -> Any:
        token = self.next
        words = {"true": True, "false": False, "null": None}
        if token is None or (token.kind not in ("text", "number") and token.text not in words):
            raise self.wrong(f"behind {self._tokens[self._at - 1].text} goes a number, a text in quotes, true or null")
        self._at += 1
        if token.kind == "number":
            return json.loads(token.text)
        if token.kind == "name":
            return words[token.text]
        text = re.sub(r"\\(.)", r"\1", token.text[1:-1])
        if field != "time":
            return text
        try:
            return moment_ms(text, self._now_ms)
        except ValueError as fault:
            raise self.wrong(str(fault)) from None

    def _took(self, word: str) -> bool:
        if self.next is not None and self.next.text == word and self.next.kind != "text":
            self._at += 1
            return True
        return False


def _comparison(field: str, path: tuple[str | int | None, ...], sign: str, literal: Any) -> Test:
    if sign in ("!=", "!~"):
        test = _comparison(field, path, sign[1:], literal)
        return lambda record: not test(record)

    def holds(found: Any) -> bool:
        if sign == "~":
            return found is not None and str(literal).lower() in _text(found).lower()
        if sign == "=":
            return _same(found, literal)
        return _comparable(found, literal) and _ORDER[sign](found, literal)

    return lambda record: any(holds(found) for found in _found(record, field, path))


def _needle(field: str, sign: str, literal: Any) -> Needle | None:
    """The bytes that a record holds for which a comparison is true."""
    if field in _NUMBERS or sign not in ("=", "~"):
        return None
    if isinstance(literal, int) and not isinstance(literal, bool) and literal >= _LEAST_NUMBER and sign == "=":
        digits = str(literal).encode()
        return lambda payload: digits in payload or _OTHER_DIGITS.search(payload) is not None
    if not isinstance(literal, str) or not _PLAIN_WORD.fullmatch(literal):
        return None
    if sign == "=":
        word = literal.encode()
        return lambda payload: word in payload or b"\\" in payload
    return lambda payload: b"\\" in payload or holds_whatever_case(payload, literal)


def holds_whatever_case(payload: bytes, text: str) -> bool:
    """True if bytes may hold a text of ASCII in upper or lower case."""
    return text.lower().encode() in payload.lower() or any(sign in payload for sign in TURN_INTO_ASCII)


def _same(found: Any, literal: Any) -> bool:
    """Numbers equal numbers, and true is no 1."""
    if isinstance(found, bool) or isinstance(literal, bool) or found is None or literal is None:
        return found is literal
    if isinstance(literal, str) and not isinstance(found, str):
        return _text(found) == literal
    return bool(found == literal)


def _comparable(found: Any, literal: Any) -> bool:
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (found, literal))
    return numbers or (isinstance(found, str) and isinstance(literal, str))


def _text(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)


def _found(record: ShownRecord, field: str, path: tuple[str | int | None, ...]) -> Iterator[Any]:
    """The values that a field has in a record; none where the path leads nowhere."""
    if field == "header":
        name = ".".join(map(str, path))
        yield from (text for key, text in record.headers if key == name)
    elif field in ("key", "value"):
        part = record.key if field == "key" else record.value
        if path:
            yield from _inside(part.value, path)
        elif part.kind != "null":
            yield part.value if part.kind == "json" and not isinstance(part.value, dict | list) else part.text
        else:
            yield None
    elif field == "size":
        yield record.value.size
    else:
        yield record.timestamp if field == "time" else getattr(record, field)


def _inside(value: Any, path: Sequence[str | int | None]) -> Iterator[Any]:
    if not path:
        yield value
        return
    step = path[0]
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        yield from _inside(value[step], path[1:])
    elif isinstance(value, list) and step is None:
        for each in value:
            yield from _inside(each, path[1:])
    elif isinstance(value, list) and isinstance(step, int) and step < len(value):
        yield from _inside(value[step], path[1:])
