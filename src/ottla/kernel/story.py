"""Stories: coroutines that await slots, driven by hand so that a request which need not wait costs no task.

A `Slot` is a place for one answer. A story that awaits an empty slot is suspended; filling the slot steps it on
in the same turn. Nothing here knows an event loop, so the simulator and the server drive the same stories.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """Holds one answer or one error, filled once; awaited by at most one story."""

    __slots__ = ("_error", "_full", "_listener", "_value")

    def __init__(self) -> None:
        self._full = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._listener: Callable[[], None] | None = None

    @property
    def full(self) -> bool:
        return self._full

    def fill(self, value: T) -> None:
        """Give the answer; whoever waits is stepped before this returns. A second fill is ignored."""
        if not self._full:
            self._full = True
            self._value = value
            self._tell()

    def fail(self, error: BaseException) -> None:
        """Raise `error` where the slot is awaited."""
        if not self._full:
            self._full = True
            self._error = error
            self._tell()

    def result(self) -> T:
        """The answer of a full slot; raises its error."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    @property
    def error(self) -> BaseException | None:
        """The exception that `result` of a full slot would raise."""
        return self._error

    def when_full(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, at once if the slot is full already."""
        if self._full:
            listener()
        else:
            self._listener = listener

    def _tell(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()

    def __await__(self) -> Generator[Slot[T], None, T]:
        if not self._full:
            try:
                yield self
            except GeneratorExit:
                # Nobody waits any more: the story may fill this slot in a `finally` as it is closed. The listener is
                # kept: it may be the outer story's last reference, and that would be closed inside this one.
                self._full = True
                raise
        return self.result()


class Story(Generic[T]):
    """A running coroutine; `ended(result, error)` is called once, at once if it never had to wait."""

    __slots__ = ("_coroutine", "_ended")

    def __init__(
        self, coroutine: Coroutine[Slot[Any], None, T], ended: Callable[[T | None, BaseException | None], None]
    ) -> None:
        self._coroutine = coroutine
        self._ended = ended
        self._step()

    def _step(self) -> None:
        try:
            slot = self._coroutine.send(None)
        except StopIteration as end:
            self._ended(end.value, None)
        except BaseException as error:
            self._ended(None, error)
        else:
            slot.when_full(self._step)


def run_story(coroutine: Coroutine[Slot[Any], None, T]) -> Slot[T]:
    """Drive a story from outside any story; the slot returned holds its end."""
    slot: Slot[T] = Slot()

    def ended(result: T | None, error: BaseException | None) -> None:
        if error is not None:
            slot.fail(error)
        else:
            slot.fill(result)  # type: ignore[arg-type]

    Story(coroutine, ended)
    return slot
