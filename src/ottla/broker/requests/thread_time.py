"""The thread time of requests whose clients have a quota of it (`request_percentage`, KIP-124).

Time on the loop counts: each step of the story, and the encoding of the answer. Waits do not, and neither do receiving
and sending. The throttle time follows from what is counted when the answer is made; the rest is counted behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.requests.call import Call, encode

if TYPE_CHECKING:
    from ottla.access.quotas import QuotaMeter
    from ottla.broker.requests.client_quotas import ClientQuotas
    from ottla.kernel.story import Slot
    from ottla.wire.connection import Part

_PRODUCE = 0


def in_thread_time(quotas: ClientQuotas, call: Call, request: Any, story: Any) -> Any:
    """The story with its time counted. Exempt as in Kafka: brokers, clients without a quota, Produce without acks."""
    if call.api_key == _PRODUCE and request.acks == 0:
        return story
    meter = quotas.time(call.connection)
    return story if meter is None else _CountedStory(quotas, meter, call, story)


class _CountedStory:
    """A story as dispatch drives it; it ends with the parts of the answer."""

    __slots__ = ("_began_ns", "_call", "_meter", "_quotas", "_story", "_told_ms")

    def __init__(self, quotas: ClientQuotas, meter: QuotaMeter, call: Call, story: Any) -> None:
        self._quotas = quotas
        self._meter = meter
        self._call = call
        self._story = story
        self._began_ns = 0
        self._told_ms: int | None = None

    def send(self, value: None) -> Slot[Any]:
        self._began_ns = self._quotas.now_ns()
        outer, self._quotas.running = self._quotas.running, self  # a step may fill a slot for which another story waits
        try:
            slot: Slot[Any] = self._story.send(value)
        except StopIteration as end:
            raise StopIteration(self._answer(end.value)) from None
        except Exception:
            self.wait_ms()
            raise
        finally:
            self._quotas.running = outer
            self._count()
        return slot

    def wait_ms(self) -> int:
        """The throttle time that the answer tells, and for which the connection is held from now on."""
        if self._told_ms is None:
            self._count()
            self._told_ms = self._quotas.over_time(self._call.connection, self._meter)
        return self._told_ms

    def _answer(self, response: Any) -> list[Part]:
        wait_ms = self.wait_ms()
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = max(response.throttle_time_ms, wait_ms)
        return encode(self._call, response)

    def _count(self) -> None:
        now_ns = self._quotas.now_ns()
        self._quotas.spent(self._meter, now_ns - self._began_ns)
        self._began_ns = now_ns
