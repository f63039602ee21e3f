"""The next Produce of the same producer to the same topic, without a story (wire/hot_shape.py, rule E1).

Tried first by dispatch.py. Unusual requests are left to the story of handlers/produce.py, which gives the same answers:
tests/broker/requests/test_produce_again.py compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import ALL_IN_SYNC
from ottla.broker.requests.call import Call, encode
from ottla.kernel.errors import ErrorCode
from ottla.storage.values import Appended
from ottla.wire.hot_answers import not_produced

if TYPE_CHECKING:
    from ottla.broker.requests.request_times import RequestTiming
    from ottla.broker.requests.services import Services
    from ottla.wire.connection import Exchange, Part, ServerConnection
    from ottla.wire.hot_shape import ProduceShape

_PRODUCE = 0


class WaitingProduce:
    """A Produce with `acks=all` that waits for its commit, in the partition's waits."""

    __slots__ = ("_appended", "_connection", "_correlation_id", "_exchange", "_index", "_services", "_shape")

    def __init__(
        self,
        services: Services,
        connection: ServerConnection,
        exchange: Exchange,
        shape: ProduceShape,
        index: int,
        correlation_id: int,
        appended: Appended,
    ) -> None:
        self._services = services
        self._connection = connection
        self._exchange = exchange
        self._shape = shape
        self._index = index
        self._correlation_id = correlation_id
        self._appended = appended

    def fill(self, value: ErrorCode) -> None:
        if value == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            answer = self._moved(value)
        elif value:
            answer = [self._shape.refusal(self._correlation_id, self._index, value)]
        else:
            appended = self._appended
            answer = [
                self._shape.answer(
                    self._correlation_id,
                    self._index,
                    appended.base_offset,
                    appended.append_time_ms,
                    appended.log_start_offset,
                )
            ]
        self._connection.answer(self._exchange, answer)

    def _moved(self, error: ErrorCode) -> list[Part]:
        """The answer that the story would give: with the current leader (rule A9)."""
        from ottla.broker.requests.produce_refused import explain

        shape = self._shape
        call = Call(self._services, self._connection, _PRODUCE, shape.version, self._correlation_id)
        answers = [(shape.name, shape.topic_id, [not_produced(self._index, error)])]
        return encode(call, explain(call, answers, []))


class _Timed:
    """A Produce with `acks=all` that is timed."""

    __slots__ = ("_timing", "_waiting")

    def __init__(self, waiting: WaitingProduce, timing: RequestTiming) -> None:
        self._waiting = waiting
        self._timing = timing

    def fill(self, value: ErrorCode) -> None:
        self._timing.ended()
        self._waiting.fill(value)


def produce_again(
    services: Services,
    connection: ServerConnection,
    shape: ProduceShape,
    index: int,
    records: memoryview,
    correlation_id: int,
    timing: RequestTiming | None = None,
) -> bool:
    """True if the request was taken; False leaves it untouched, for the story to answer."""
    rights = services.rights
    if rights is not None and rights.version() != shape.allowed_at:
        return False
    quotas = services.quotas
    if quotas.on_produce and quotas.limits_producer(connection):
        return False  # the story is counted
    replicas = services.replicas
    partition = (replicas.by_id if shape.by_id else replicas.by_name).get((shape.topic, index))  # type: ignore[arg-type]
    if partition is None or partition.is_internal:
        return False
    acks = shape.acks
    appended = partition.produce(records, acks=acks, wall_ms=services.clock.wall_ms())
    if appended.__class__ is not Appended:
        return False  # refused before anything was written: the story refuses it too, with the reason
    partition.traffic.produces += 1
    if acks == 0:
        if timing is not None:
            timing.ended()
        return True
    if acks == ALL_IN_SYNC:
        leader = partition.leader
        assert leader is not None
        if leader.high_watermark < appended.next_offset:
            waiting = WaitingProduce(services, connection, connection.expect(), shape, index, correlation_id, appended)
            waiter = waiting if timing is None else _Timed(waiting, timing)
            partition.waits.put(appended.next_offset, services.clock.mono_ms() + shape.timeout_ms, waiter)
            return True
    if timing is not None:
        timing.ended()
    answer = shape.answer(
        correlation_id, index, appended.base_offset, appended.append_time_ms, appended.log_start_offset
    )
    if not connection.answer_at_once([answer]):
        connection.answer(connection.expect(), [answer])
    return True
