"""Regular expressions in time linear in the text: a pattern becomes an automaton whose states are made as they are met.

For patterns that clients send. A pattern matches the whole of a text or does not match; pattern_syntax.py reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple

from ottla.kernel.pattern_syntax import BadPattern, Choice, Node, OneOf, Repeat, Sequence, Side, parse

__all__ = ["BadPattern", "Matcher", "PatternCompiler", "compile_pattern"]

Matcher = Callable[[str], bool]
"""Whether a pattern matches the whole of a text."""
PatternCompiler = Callable[[str], Matcher]
"""Raises BadPattern."""

_MOST_STEPS = 2_000
_MOST_STATES = 1_000
"""Of one automaton; beyond it all are made anew."""
_MATCH = 0


def compile_pattern(pattern: str) -> Matcher:
    """Raise BadPattern where the pattern is not in the syntax, or would take an automaton too large."""
    return _Automaton(_Program(parse(pattern))).matches


class _Step(NamedTuple):
    """One instruction: a character that it takes or a side that it asks for, and where it goes on."""

    takes: OneOf | None = None
    asks: Side | None = None
    to: tuple[int, ...] = ()


class _Program:
    """The instructions of a pattern. Instruction 0 is the match."""

    def __init__(self, tree: Node) -> None:
        self.steps = [_Step()]
        self._visits = 0
        self.start = self._put(tree, _MATCH)

    def _put(self, node: Node, after: int) -> int:
        """Instructions for a node that go on at `after`; returns where they begin."""
        self._visits += 1
        if self._visits > 10 * _MOST_STEPS:
            raise BadPattern("the pattern is too large")
        if isinstance(node, OneOf):
            return self._add(_Step(takes=node, to=(after,)))
        if isinstance(node, Side):
            return self._add(_Step(asks=node, to=(after,)))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._put(part, after)
        elif isinstance(node, Choice):
            return self._add(_Step(to=tuple(self._put(each, after) for each in node.options)))
        elif isinstance(node, Repeat):
            return self._put_repeat(node, after)
        return after

    def _put_repeat(self, node: Repeat, after: int) -> int:
        start = after
        if node.most is None:
            start = self._add(_Step())
            self.steps[start] = _Step(to=(self._put(node.part, start), after))
        else:
            for _ in range(node.most - node.least):
                start = self._add(_Step(to=(self._put(node.part, start), after)))
        for _ in range(node.least):
            start = self._put(node.part, start)
        return start

    def _add(self, step: _Step) -> int:
        if len(self.steps) >= _MOST_STEPS:
            raise BadPattern("the pattern is too large")
        self.steps.append(step)
        return len(self.steps) - 1


class _Beside(IntEnum):
    """What stands on one side of a place in the text."""

    NOTHING = 0
    WORD = 1
    OTHER = 2


class _State:
    """The instructions that a text may have led to, and where each character leads from there."""

    __slots__ = ("accepts", "at", "before", "next")

    def __init__(self, at: tuple[int, ...], before: _Beside, *, accepts: bool) -> None:
        self.at = at
        self.before = before
        self.accepts = accepts
        self.next: dict[str, _State] = {}


class _Automaton:
    """States are made when a text first leads to them; from then on a character costs one look-up."""

    def __init__(self, program: _Program) -> None:
        self._steps = program.steps
        self._states: dict[tuple[tuple[int, ...], _Beside], _State] = {}
        self._start = self._state({program.start}, _Beside.NOTHING)

    def matches(self, text: str) -> bool:
        state = self._start
        for character in text:
            following = state.next.get(character)
            state = following or self._follow(state, character)
            if not state.at:
                return False
        return state.accepts

    def _follow(self, state: _State, character: str) -> _State:
        beside = _Beside.WORD if character.isascii() and (character.isalnum() or character == "_") else _Beside.OTHER
        reached: set[int] = set()
        for place in self._without_taking(state.at, state.before, beside):
            step = self._steps[place]
            if step.takes is not None and step.takes.has(character):
                reached.update(step.to)
        if len(self._states) >= _MOST_STATES:
            self._states.clear()
            self._start = self._state(self._start.at, _Beside.NOTHING)
        following = state.next[character] = self._state(reached, beside)
        return following

    def _state(self, at: Iterable[int], before: _Beside) -> _State:
        key = (tuple(sorted(at)), before)
        state = self._states.get(key)
        if state is None:
            accepts = _MATCH in self._without_taking(key[0], before, _Beside.NOTHING)
            state = self._states[key] = _State(key[0], before, accepts=accepts)
        return state

    def _without_taking(self, at: Iterable[int], before: _Beside, behind: _Beside) -> set[int]:
        """All instructions that can be reached before the next character is taken."""
        found: set[int] = set()
        left = list(at)
        while left:
            place = left.pop()
            if place in found:
                continue
            found.add(place)
            step = self._steps[place]
            if step.takes is None and (step.asks is None or _is_there(step.asks, before, behind)):
                left.extend(step.to)
        return found


def _is_there(side: Side, before: _Beside, behind: _Beside) -> bool:
    if side is Side.BEGIN:
        return before is _Beside.NOTHING
    if side is Side.END:
        return behind is _Beside.NOTHING
    edge = (before is _Beside.WORD) != (behind is _Beside.WORD)
    return edge == (side is Side.WORD_EDGE)
