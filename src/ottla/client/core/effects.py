"""Effects that a client's story awaits: an answer to a request, several answers at once, or time to pass.

A story is a coroutine that awaits them. `Driver` in blocking/driver.py, `Stories` in blocking/stories.py and `Driver`
in aio/driver.py carry them out.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

from ottla.client.model import Destination

R = TypeVar("R")
T = TypeVar("T")


class Ask(Generic[R]):
    """Send one request, await its answer; raises ClientError where there is none.

    `build` makes the request for the version that both sides speak, at most `max_version`.
    """

    __slots__ = ("build", "destination", "max_version", "min_version", "request", "response", "timeout_ms")

    def __init__(
        self,
        destination: Destination,
        request: type[Any],
        response: type[R],
        build: Callable[[int], object],
        *,
        min_version: int = 0,
        max_version: int = 32767,
        timeout_ms: int | None = None,
    ) -> None:
        self.destination = destination
        self.request = request
        self.response = response
        self.build = build
        self.min_version = min_version
        self.max_version = max_version
        self.timeout_ms = timeout_ms

    def __await__(self) -> Generator[Any, Any, R]:
        answer: R = yield self
        return answer


class AskAll(Generic[R]):
    """Send all requests before the first answer is awaited; a failed one leaves its error in its place."""

    __slots__ = ("asks",)

    def __init__(self, asks: Sequence[Ask[R]]) -> None:
        self.asks = asks

    def __await__(self) -> Generator[Any, Any, list[R | Exception]]:
        answers: list[R | Exception] = yield self
        return answers


class Pause:
    """Let time pass."""

    __slots__ = ("ms",)

    def __init__(self, ms: float) -> None:
        self.ms = ms

    def __await__(self) -> Generator[Any, Any, None]:
        yield self


class VersionsOf:
    """The API versions that a broker announces: key -> (first, last)."""

    __slots__ = ("destination",)

    def __init__(self, destination: Destination) -> None:
        self.destination = destination

    def __await__(self) -> Generator[Any, Any, dict[int, tuple[int, int]]]:
        versions: dict[int, tuple[int, int]] = yield self
        return versions


class FeaturesOf:
    """The features that the cluster has finalized, as a broker said when we connected: name -> level (KIP-584)."""

    __slots__ = ("destination",)

    def __init__(self, destination: Destination) -> None:
        self.destination = destination

    def __await__(self) -> Generator[Any, Any, dict[str, int]]:
        features: dict[str, int] = yield self
        return features


class Start(Generic[R]):
    """Send one request without awaiting its answer; gives a handle for `First` and `Finish`."""

    __slots__ = ("ask",)

    def __init__(self, ask: Ask[R]) -> None:
        self.ask = ask

    def __await__(self) -> Generator[Any, Any, object]:
        handle: object = yield self
        return handle


class First:
    """Wait until one of the started requests and stories has ended; its handle, or None after `timeout_ms`."""

    __slots__ = ("handles", "timeout_ms")

    def __init__(self, handles: Sequence[object], timeout_ms: float) -> None:
        self.handles = handles
        self.timeout_ms = timeout_ms

    def __await__(self) -> Generator[Any, Any, object | None]:
        handle: object | None = yield self
        return handle


class Finish:
    """Take the answer of a started request, or the result of a story; raises its error."""

    __slots__ = ("handle",)

    def __init__(self, handle: object) -> None:
        self.handle = handle

    def __await__(self) -> Generator[Any, Any, Any]:
        answer = yield self
        return answer


class Begin(Generic[T]):
    """Drive another story, of requests and pauses, while this one waits; gives a handle for `First` and `Finish`."""

    __slots__ = ("story",)

    def __init__(self, story: ClientStory[T]) -> None:
        self.story = story

    def __await__(self) -> Generator[Any, Any, object]:
        handle: object = yield self
        return handle


class Drop:
    """Give up what was started or begun; its handle means nothing afterwards."""

    __slots__ = ("handle",)

    def __init__(self, handle: object) -> None:
        self.handle = handle

    def __await__(self) -> Generator[Any, Any, None]:
        yield self


Effect = Ask[Any] | AskAll[Any] | Pause | VersionsOf | FeaturesOf | Start[Any] | Begin[Any] | First | Finish | Drop
ClientStory = Coroutine[Effect, Any, T]
