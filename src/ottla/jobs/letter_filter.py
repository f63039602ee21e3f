"""Conditions on dead letters, as `ottla redrive --where` has them: topic=orders, offset>=100, reason~date. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.config.option import nearest
from ottla.jobs.letters import DeadLetter
from ottla.kernel.quantities import moment_ms

Value = str | int | None
_TEXTS: dict[str, Callable[[DeadLetter, int], Value]] = {
    "topic": lambda letter, _: letter.cause.topic,
    "reason": lambda letter, _: letter.cause.reason,
    "exception": lambda letter, _: letter.cause.exception,
    "stage": lambda letter, _: letter.cause.stage,
    "connector": lambda letter, _: letter.cause.connector,
}
_NUMBERS: dict[str, Callable[[DeadLetter, int], Value]] = {
    "partition": lambda letter, _: letter.cause.partition,
    "offset": lambda letter, _: letter.cause.offset,
    "task": lambda letter, _: letter.cause.task,
    "redriven": lambda letter, _: letter.redriven,
    "time": lambda letter, timestamp: timestamp if letter.cause.timestamp is None else letter.cause.timestamp,
}
NAMES = (*_TEXTS, *_NUMBERS)
_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|!=|=|<|>|!~|~)\s*(.*)", re.DOTALL)
_WRITE = f"write NAME=VALUE, with = != < <= > >= ~ (contains) or !~, and a name of {', '.join(NAMES)}"


class WrongCondition(ValueError):
    """The text of a condition is not understood; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. A letter whose headers do not have the value passes != and !~ alone."""

    name: str
    sign: str
    values: tuple[Value, ...]

    def holds(self, letter: DeadLetter, timestamp: int) -> bool:
        """True for a letter; `timestamp` is that of its record in the dead letter topic."""
        found = (_TEXTS.get(self.name) or _NUMBERS[self.name])(letter, timestamp)
        if self.sign in ("=", "!="):
            return (found in self.values and found is not None) == (self.sign == "=")
        if self.sign in ("~", "!~"):
            inside = isinstance(found, str) and str(self.values[0]).lower() in found.lower()
            return inside == (self.sign == "~")
        return isinstance(found, int) and _ORDER[self.sign](found, int(self.values[0] or 0))


def condition(text: str, now_ms: int) -> Condition:
    """A condition from its text; = and != take several values with commas between, except for a reason."""
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise WrongCondition(f"{text!r} is not a condition: {_WRITE}")
    name, sign, value = parts[1], parts[2], parts[3].strip()
    if name not in NAMES:
        raise WrongCondition(f"{text!r}: letters have no {name}{nearest(name, NAMES)}; there are {', '.join(NAMES)}")
    if sign in _ORDER and name in _TEXTS:
        raise WrongCondition(f"{text!r}: {name} is text, which takes =, !=, ~ and !~")
    if "~" in sign and name in _NUMBERS:
        raise WrongCondition(f"{text!r}: {name} is a number, which takes =, !=, <, <=, > and >=")
    if not value:
        raise WrongCondition(f"{text!r} lacks a value: {_WRITE}")
    if name in _TEXTS:
        several = sign in ("=", "!=") and name not in ("reason", "exception")
        return Condition(name, sign, tuple(each.strip() for each in value.split(",")) if several else (value,))
    several = sign in ("=", "!=") and name != "time"
    return Condition(name, sign, tuple(_number(text, name, each, now_ms) for each in _parts(value, several=several)))


def all_hold(conditions: Sequence[Condition], letter: DeadLetter, timestamp: int) -> bool:
    """True where every condition holds."""
    return all(each.holds(letter, timestamp) for each in conditions)


def _parts(value: str, *, several: bool) -> list[str]:
    return value.split(",") if several else [value]


def _number(text: str, name: str, value: str, now_ms: int) -> int:
    if name == "time":
        try:
            return moment_ms(value, now_ms)
        except ValueError as fault:
            raise WrongCondition(f"{text!r}: {fault}") from None
    digits = value.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise WrongCondition(f"{text!r}: {digits!r} is not a number")
    return int(digits)
