"""Drives a story of the client by hand, as its faces do."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any


def drive(story: Coroutine[Any, Any, Any], carry_out: Callable[[Any], Any]) -> Any:
    """The story's result. `carry_out` answers its effects; an exception that it returns is raised in the story."""
    answer: Any = None
    while True:
        try:
            effect = story.throw(answer) if isinstance(answer, Exception) else story.send(answer)
        except StopIteration as end:
            return end.value
        answer = carry_out(effect)
