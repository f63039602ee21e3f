"""The time that requests take, by API: from their decoding until their answer is given to the connection.

dispatch.py and produce_again.py time them; measures.py reads. Timing each request would cost a one-record Produce two
percent, so of Produce and Fetch one in `ONE_IN` is timed, and of other APIs every request (rule E9).
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.metrics.histogram import Histogram

ONE_IN = 31
"""A prime number: a client that goes round its partitions has not the same one timed each time."""
NOT_TIMED = 0


class RequestTimes:
    """A histogram for each API that has been asked for."""

    __slots__ = ("by_key", "now_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.by_key: dict[int, Histogram] = {}

    def ended(self, api_key: int, began_ns: int) -> None:
        """The answer to a request that was begun at `began_ns` leaves now."""
        times = self.by_key.get(api_key)
        if times is None:
            times = self.by_key[api_key] = Histogram()
        times.add_ns(self.now_ns() - began_ns)

    def begin(self, api_key: int) -> Timing:
        """A request that is begun now, for those who answer it without knowing these times."""
        return Timing(self, api_key, self.now_ns())


class Timing:
    """One request whose time is taken."""

    __slots__ = ("_api_key", "_began_ns", "_times")

    def __init__(self, times: RequestTimes, api_key: int, began_ns: int) -> None:
        self._times = times
        self._api_key = api_key
        self._began_ns = began_ns

    def ended(self) -> None:
        self._times.ended(self._api_key, self._began_ns)
