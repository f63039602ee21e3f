"""Answers leave in the order of the requests, and a held connection loses no request."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import connection as connection_module
from ottla.wire.connection import BYTES_A_TURN, FRAMES_A_TURN, ConnectionState, ServerConnection
from ottla.wire.frame import FramePool, FrameReader


class Wire:
    """A transport that keeps the sent bytes."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.unsent_bytes = 0
        self.weight = 0
        self.corked = False
        self.closed = False

    def send(self, parts) -> None:
        self.sent.extend(parts)
        if self.corked:
            self.unsent_bytes += sum(map(len, parts)) * self.weight

    def cork(self) -> None:
        self.corked = True

    def uncork(self) -> None:
        """Send now what was written while corked."""
        self.corked = False
        self.unsent_bytes = 0

    def close(self) -> None:
        self.closed = True


class Room:
    """One connection and its waiting requests."""

    def __init__(self, blocking: frozenset[int] = frozenset()) -> None:
        self.wire = Wire()
        self.served: list[bytes] = []
        self.waiting = []
        self.blocking = blocking
        self.shared = memoryview(bytearray(64 << 10))
        self.connection = ServerConnection(
            FrameReader(self.shared, FramePool(8 << 20), 1 << 20),
            self.wire,
            self.serve,
            name="test",
            peer_host="127.0.0.1",
            local_address=("127.0.0.1", 9092),
            listener="PLAINTEXT",
        )

    def serve(self, connection, frame) -> None:
        content = bytes(frame)
        self.served.append(content)
        kind = content[0]
        if kind < 128:
            if not connection.answer_at_once([content]):
                connection.answer(connection.expect(), [content])
        else:
            self.waiting.append((connection.expect(blocks=kind in self.blocking), content))

    def answer(self, place: int) -> None:
        exchange, content = self.waiting.pop(place)
        self.connection.answer(exchange, [content])

    def receive(self, data: bytes) -> None:
        target = self.connection.reader.target()
        target[: len(data)] = data
        self.connection.reader.received(len(data))
        self.connection.run()
        self.shared[:] = b"\xdd" * len(self.shared)

    def resume(self) -> None:
        if self.connection.paused and not self.connection.held:
            self.connection.paused = False
            if self.connection.reader.parked_whole_frames:
                self.connection.run()


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_answers_leave_in_the_order_of_the_requests_however_they_end(data):
    connection_module_limit = connection_module.MAX_IN_FLIGHT
    connection_module.MAX_IN_FLIGHT = 3
    try:
        requests = data.draw(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=20))
        room = Room(blocking=frozenset(range(200, 256)))
        stream = b"".join(map(framed, requests))
        while stream or room.waiting:
            may_read = stream and not room.connection.paused
            if may_read and (not room.waiting or data.draw(st.booleans())):
                count = data.draw(st.integers(1, len(stream)))
                room.receive(stream[:count])
                stream = stream[count:]
            elif room.waiting:
                room.answer(data.draw(st.integers(0, len(room.waiting) - 1)))
                room.resume()
        assert room.served == requests
        assert room.wire.sent == requests
    finally:
        connection_module.MAX_IN_FLIGHT = connection_module_limit


def test_nothing_begins_behind_a_blocking_request():
    room = Room(blocking=frozenset({255}))
    room.receive(framed(b"\xff first") + framed(b"second"))
    assert room.served == [b"\xff first"]
    room.answer(0)
    room.resume()
    assert room.served == [b"\xff first", b"second"]


def test_behind_a_request_that_blocks_no_more_others_begin_and_answers_keep_their_order():
    room = Room(blocking=frozenset({255}))
    resumed: list[None] = []
    room.connection.resume = lambda: resumed.append(None)
    room.receive(framed(b"\xff first") + framed(b"second"))
    room.connection.unblock(room.waiting[0][0])
    assert (room.connection.state, len(resumed)) == (ConnectionState.SERVING, 1)
    room.resume()
    assert (room.served, room.wire.sent) == ([b"\xff first", b"second"], [])
    room.answer(0)
    assert room.wire.sent == [b"\xff first", b"second"]


def test_a_connection_that_ends_begins_nothing_when_its_request_blocks_no_more():
    room = Room(blocking=frozenset({255}))
    room.receive(framed(b"\xff last") + framed(b"never served"))
    room.connection.close_after_answer()
    room.connection.unblock(room.waiting[0][0])
    room.resume()
    assert (room.connection.state, room.served) == (ConnectionState.ENDING, [b"\xff last"])


def test_a_blocking_request_that_is_answered_behind_one_that_waits_lets_others_begin():
    room = Room(blocking=frozenset({255}))
    resumed: list[None] = []
    room.connection.resume = lambda: resumed.append(None)
    room.receive(framed(b"\x80 waits"))
    room.receive(framed(b"\xff blocks") + framed(b"third"))
    assert (room.connection.paused, resumed) == (True, [])
    room.answer(1)
    assert (room.connection.state, len(resumed)) == (ConnectionState.SERVING, 1)
    room.resume()
    assert room.served == [b"\x80 waits", b"\xff blocks", b"third"]


def test_a_closed_connection_drops_late_answers():
    room = Room()
    room.receive(framed(b"\x80 waits"))
    room.connection.close()
    room.answer(0)
    assert room.wire.sent == []
    assert room.wire.closed


def test_a_blocking_request_holds_the_connection_until_its_answer():
    room = Room(blocking=frozenset({255}))
    assert room.connection.state is ConnectionState.SERVING
    room.receive(framed(b"\x80 waits") + framed(b"\xff blocks"))
    assert (room.connection.state, room.connection.held) == (ConnectionState.BLOCKED, True)
    room.answer(0)
    assert room.connection.state is ConnectionState.BLOCKED
    room.answer(0)
    assert (room.connection.state, room.connection.held) == (ConnectionState.SERVING, False)


def test_one_that_is_to_end_begins_nothing_more_and_closes_once_its_answers_have_left():
    room = Room(blocking=frozenset({255}))
    room.receive(framed(b"\xff last") + framed(b"never served"))
    room.connection.close_after_answer()
    room.answer(0)
    assert (room.connection.state, room.wire.closed) == (ConnectionState.ENDING, False)
    room.connection.drained()
    assert (room.connection.state, room.wire.closed) == (ConnectionState.CLOSED, True)
    assert room.served == [b"\xff last"] and room.wire.sent == [b"\xff last"]


def test_a_muted_connection_answers_and_begins_nothing_until_every_mute_has_ended():
    room = Room()
    resumed: list[None] = []
    room.connection.resume = lambda: resumed.append(None)
    room.receive(framed(b"\x80 first"))
    room.connection.mute()
    room.connection.mute()
    room.receive(framed(b"second"))
    room.answer(0)
    room.resume()
    assert (room.served, room.wire.sent) == ([b"\x80 first"], [b"\x80 first"])
    room.connection.unmute()
    assert (room.connection.state, resumed) == (ConnectionState.MUTED, [])
    room.connection.unmute()
    assert (room.connection.state, len(resumed)) == (ConnectionState.SERVING, 1)
    room.resume()
    assert room.served == [b"\x80 first", b"second"]


def test_a_mute_that_ends_behind_a_request_that_blocks_lets_nothing_begin():
    room = Room(blocking=frozenset({255}))
    room.receive(framed(b"\xff blocks"))
    room.connection.mute()
    room.connection.unmute()
    assert room.connection.state is ConnectionState.BLOCKED
    room.connection.mute()
    room.answer(0)
    assert room.connection.state is ConnectionState.MUTED
    room.connection.unmute()
    assert room.connection.state is ConnectionState.SERVING


def test_a_muted_connection_that_is_to_end_is_not_served_again():
    room = Room()
    room.connection.mute()
    room.connection.close()
    room.connection.unmute()
    assert room.connection.state is ConnectionState.CLOSED


def test_a_closed_connection_stays_closed():
    room = Room()
    closed: list[None] = []
    room.connection.on_close.append(lambda: closed.append(None))
    room.connection.close()
    room.connection.close_after_answer()
    room.connection.expect(blocks=True)
    room.connection.close()
    assert room.connection.state is ConnectionState.CLOSED and room.connection.held
    assert len(closed) == 1


def test_answers_too_large_to_be_held_back_do_not_keep_later_requests_waiting():
    room = Room()
    resumed: list[None] = []
    room.connection.resume = lambda: resumed.append(None)
    room.wire.weight = 1 << 20
    room.receive(framed(b"one") + framed(b"two") + framed(b"three"))
    for turn in range(1, 3):
        assert len(room.served) == len(resumed) == turn  # others get their turn in between
        room.resume()
    room.resume()
    assert room.served == [b"one", b"two", b"three"]
    assert not room.connection.paused


def test_one_that_sends_without_end_lets_others_have_their_turn():
    room = Room()
    resumed: list[None] = []
    room.connection.resume = lambda: resumed.append(None)
    requests = [str(number).encode() for number in range(3 * FRAMES_A_TURN)]
    room.receive(b"".join(map(framed, requests)))
    for turn in range(1, 4):
        assert room.served == requests[: turn * FRAMES_A_TURN]
        assert len(resumed) == turn
        room.resume()
    assert not room.connection.paused
    assert room.wire.sent == requests


def test_long_answers_end_a_turn_too():
    room = Room()
    resumed: list[None] = []
    room.connection.resume = lambda: resumed.append(None)
    room.wire.weight = BYTES_A_TURN // 16
    requests = [b"%08d" % number for number in range(5)]
    room.receive(b"".join(map(framed, requests)))
    assert (len(room.served), len(resumed)) == (2, 1)
    room.resume()
    room.resume()
    assert room.served == requests


def test_answers_that_a_slow_client_has_not_taken_yet_do_not_end_a_turn_before_it_began():
    room = Room()
    resumed: list[None] = []
    room.connection.resume = lambda: resumed.append(None)
    room.wire.unsent_bytes = 2 * BYTES_A_TURN
    room.receive(framed(b"one") + framed(b"two"))
    assert room.served == [b"one", b"two"]
    assert not resumed
