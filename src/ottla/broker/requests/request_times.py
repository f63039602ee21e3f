"""Request times by API: from decoding until the answer is handed to the connection.

dispatch.py and produce_again.py time requests; measures.py reads the times. Timing costs a one-record Produce two
percent, so one Produce or Fetch in `ONE_IN` is timed, and every request of other APIs (rule E9).
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.metrics.histogram import Histogram

ONE_IN = 31
"""A prime number, so that a client that goes round its partitions does not get the same one timed each time."""
NOT_TIMED = 0


class RequestTimes:
    """A histogram for each API that was requested."""

    __slots__ = ("by_key", "now_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.by_key: dict[int, Histogram] = {}

    def ended(self, api_key: int, began_ns: int) -> None:
        """Note the end of a request that began at `began_ns`."""
        times = self.by_key.get(api_key)
        if times is None:
            times = self.by_key[api_key] = Histogram()
        times.add_ns(self.now_ns() - began_ns)

    def begin(self, api_key: int) -> RequestTiming:
        """Begin to time a request; the returned value ends it without knowing this object."""
        return RequestTiming(self, api_key, self.now_ns())


class RequestTiming:
    """One timed request."""

    __slots__ = ("_api_key", "_began_ns", "_times")

    def __init__(self, times: RequestTimes, api_key: int, began_ns: int) -> None:
        self._times = times
        self._api_key = api_key
        self._began_ns = began_ns

    def ended(self) -> None:
        self._times.ended(self._api_key, self._began_ns)
