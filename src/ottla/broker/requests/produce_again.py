"""The next Produce of the same producer to the same partition, without a story (wire/hot_shape.py, rule E1).

dispatch.py comes here first. What is not as usual is left to the story of handlers/produce.py, which says the same:
tests/broker/requests/test_produce_again.py holds the two to one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import ALL_IN_SYNC
from ottla.broker.requests.request_times import NOT_TIMED
from ottla.kernel.errors import ErrorCode
from ottla.storage.values import Appended

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.wire.connection import Exchange, Part, ServerConnection
    from ottla.wire.hot_shape import ProduceShape
_PRODUCE = 0


class Waiting:
    """A Produce with `acks=all`, until its batch is committed; stands in the partition's waits."""

    __slots__ = ("_appended", "_connection", "_correlation_id", "_exchange", "_node", "_shape")

    def __init__(
        self,
        node: Node,
        connection: ServerConnection,
        exchange: Exchange,
        shape: ProduceShape,
        correlation_id: int,
        appended: Appended,
    ) -> None:
        self._node = node
        self._connection = connection
        self._exchange = exchange
        self._shape = shape
        self._correlation_id = correlation_id
        self._appended = appended

    def fill(self, value: ErrorCode) -> None:
        if value == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            answer = self._moved(value)
        elif value:
            answer = [self._shape.refusal(self._correlation_id, value)]
        else:
            appended = self._appended
            answer = [
                self._shape.answer(
                    self._correlation_id, appended.base_offset, appended.append_time_ms, appended.log_start_offset
                )
            ]
        self._connection.answer(self._exchange, answer)

    def _moved(self, error: ErrorCode) -> list[Part]:
        """As the story says it: with the current leader (rule A9)."""
        from ottla.broker.handlers.produce_refused import explain
        from ottla.broker.requests.dispatch import PRODUCE, Call

        shape, node = self._shape, self._node
        call = Call(node, self._connection, PRODUCE, shape.version, self._correlation_id)
        answers = [(shape.name, shape.topic_id, [(shape.index, int(error), -1, -1, -1)])]
        return node.dispatch.encode(call, explain(call, answers, []))


class _Timed:
    """A Produce with `acks=all` whose time is taken."""

    __slots__ = ("_began_ns", "_node", "_waiting")

    def __init__(self, waiting: Waiting, node: Node, began_ns: int) -> None:
        self._waiting = waiting
        self._node = node
        self._began_ns = began_ns

    def fill(self, value: ErrorCode) -> None:
        self._node.dispatch.times.ended(_PRODUCE, self._began_ns)
        self._waiting.fill(value)


def produce_again(
    node: Node,
    connection: ServerConnection,
    shape: ProduceShape,
    records: memoryview,
    correlation_id: int,
    began_ns: int = NOT_TIMED,
) -> bool:
    """Whether the request was taken; False leaves it untouched, for the story to answer."""
    replicas = node.replicas
    partition = (replicas.by_id if shape.by_id else replicas.by_name).get(shape.place)  # type: ignore[arg-type]
    if partition is None or partition.is_internal:
        return False
    acks = shape.acks
    appended = partition.produce(records, acks=acks, wall_ms=node.clock.wall_ms())
    if appended.__class__ is not Appended:
        return False  # refused before anything was written: the story finds the same, and explains it
    partition.traffic.produces += 1
    if acks == 0:
        if began_ns:
            node.dispatch.times.ended(_PRODUCE, began_ns)
        return True
    if acks == ALL_IN_SYNC:
        leader = partition.leader
        assert leader is not None
        if leader.high_watermark < appended.next_offset:
            waiting = Waiting(node, connection, connection.expect(), shape, correlation_id, appended)
            waiter = waiting if not began_ns else _Timed(waiting, node, began_ns)
            partition.waits.put(appended.next_offset, node.clock.mono_ms() + shape.timeout_ms, waiter)
            return True
    if began_ns:
        node.dispatch.times.ended(_PRODUCE, began_ns)
    answer = shape.answer(correlation_id, appended.base_offset, appended.append_time_ms, appended.log_start_offset)
    if not connection.answer_at_once([answer]):
        connection.answer(connection.expect(), [answer])
    return True
