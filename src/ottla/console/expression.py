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
from typing import Any

from ottla.config.option import nearest
from ottla.console.values import ShownRecord
from ottla.kernel.quantities import moment_ms

Test = Callable[[ShownRecord], bool]
FIELDS = ("key", "value", "header", "partition", "offset", "time", "size")
_NUMBERS = ("partition", "offset", "time", "size")
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SIGNS = ("=", "!=", "~", "!~", *_ORDER)
_DEEPEST = 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
    r"""|(?P<sign>==|!=|<=|>=|!~|&&|\|\||[=<>~!()])|(?P<step>\[\*\]|\[\d+\]|\[(?:"[^"]*"|'[^']*')\])"""
    r"""|(?P<name>\$|\.?[^\W\d][\w-]*))"""
)
_WORDS = {"&&": "and", "||": "or", "!": "not"}


class WrongExpression(ValueError):
    """The text is no expression; the message says where and what to write."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def expression(text: str, now_ms: int) -> Test:
    """The test that an expression stands for."""
    parser = _Parser(text, list(_tokens(text)), now_ms)
    test = parser.either(0)
    if parser.next is not None:
        raise parser.wrong(f"{parser.next.text!r} is one too many: write and, or")
    return test


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

    def either(self, depth: int) -> Test:
        return self._joined("or", any, lambda: self._joined("and", all, lambda: self._factor(depth)))

    def _joined(self, word: str, join: Callable[[Iterator[bool]], bool], part: Callable[[], Test]) -> Test:
        tests = [part()]
        while self._took(word):
            tests.append(part())
        return tests[0] if len(tests) == 1 else lambda record: join(test(record) for test in tests)

    def _factor(self, depth: int) -> Test:
        if depth > _DEEPEST:
            raise self.wrong("it is nested too deeply")
        if self._took("not"):
            test = self._factor(depth + 1)
            return lambda record: not test(record)
        if self._took("("):
            test = self.either(depth + 1)
            if not self._took(")"):
                raise self.wrong("a ) is missing")
            return test
        field, path = self._field()
        sign = self.next
        if sign is None or sign.kind != "sign" or sign.text not in _SIGNS:
            return lambda record: any(found is not None for found in _found(record, field, path))
        self._at += 1
        return _comparison(field, path, sign.text, self._literal(field))

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
