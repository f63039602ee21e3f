"""Splits what a socket received into frames: four bytes of length, then a request (kafka-protocol 2.1).

The listener receives into the view that `target` gives, then takes frames with `next`. Frames are views: each is valid
until the next call of `target` or `park` (rule E4). A frame is never given memory because its length field says so:
a buffer of its own grows as the bytes arrive, and only within the pool's budget (rules E4, E7, F).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

_LENGTH = Struct(">i")
SHARED_BYTES = 1 << 20
"""The size of the one receive buffer that all connections of a loop share."""
_SMALL = 64 << 10
"""An unfinished frame up to this size is carried over in front of the shared buffer."""
_CLASSES = (128 << 10, 512 << 10, 2 << 20)


class FrameTooLarge(Exception):
    """The length field is longer than any request may be: the connection is closed."""


class FramePool:
    """Lends buffers for unfinished large frames, within a budget for the whole broker."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.lent_bytes = 0
        self.now = 0.0
        """Seconds of a monotonic clock, kept by the listeners, a few seconds old at most."""
        self.holders: dict[FrameReader, float] = {}
        """Readers with a buffer for a frame under way, or with much parked, each since which time; the oldest first."""
        self.waiting: dict[Callable[[], None], None] = {}
        """Callbacks, each called once when a buffer comes back."""
        self._free: dict[int, list[bytearray]] = {size: [] for size in _CLASSES}

    def take(self, size: int) -> bytearray | None:
        """A buffer of at least `size` bytes; None if the budget is spent."""
        size = next((fitting for fitting in _CLASSES if fitting >= size), size)
        if self.lent_bytes + size > self.budget_bytes:
            return None
        self.lent_bytes += size
        free = self._free.get(size)
        return free.pop() if free else bytearray(size)

    def give(self, buffer: bytearray) -> None:
        self.lent_bytes -= len(buffer)
        free = self._free.get(len(buffer))
        if free is not None and len(free) < 4:
            free.append(buffer)
        if self.waiting:
            waiting, self.waiting = self.waiting, {}
            for tell in waiting:
                tell()

    def holder_to_close(self, before: float) -> FrameReader | None:
        """The holder of memory since `before` that is to be closed: the first that waits for its client, else the
        first.

        The others are held by the broker, or want more memory themselves: it may not be their clients' fault.
        """
        first = None
        for reader, since in self.holders.items():
            if since > before:
                break
            if reader.waits_for_bytes and not reader.held():
                return reader
            first = first or reader
        return first


class FrameReader:
    """One connection's incoming bytes."""

    __slots__ = (
        "_buffer", "_carried", "_end", "_own", "_parked_bytes", "_pool", "_shared", "_start", "_view",
        "give_up", "held", "max_frame_bytes", "refused",
    )  # fmt: skip

    def __init__(self, shared: memoryview, pool: FramePool, max_frame_bytes: int) -> None:
        self._shared = shared
        self._pool = pool
        self.max_frame_bytes = max_frame_bytes
        self.give_up: Callable[[], None] = _nothing
        """Set by the listener: closes the connection, as others wait for its memory."""
        self.held: Callable[[], bool] = _never
        """Set by the listener: true while the broker itself does not read on."""
        self.refused = False
        """True while the frame under way waits for memory that the pool did not have."""
        self._carried = b""
        self._own: bytearray | None = None
        self._parked_bytes = 0
        self._view = shared
        self._start = self._end = 0
        self._buffer: memoryview | None = None

    def target(self) -> memoryview | None:
        """The buffer to receive into next; None while the pool has no room for the frame under way."""
        if self._own is None and self._view is not self._shared:
            if not self.park():
                return None
            assert self._own is not None or self._view is self._shared, "whole frames wait here: serve them first"
        own = self._own
        if own is not None:
            if self._end == len(own):
                own = self._grow(own)
                if own is None:
                    return None
            assert self._buffer is not None
            return self._buffer[self._end : self._wanted_end()]
        carried = self._carried
        if carried:
            size = len(carried)
            self._shared[:size] = carried
            self._start, self._end = 0, size
            self._carried = b""
        else:
            self._start = self._end = 0
        self._view = self._shared
        return self._shared[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next(self) -> memoryview | None:
        """The next whole frame without its length, or None. Raises FrameTooLarge."""
        start = self._start
        available = self._end - start
        if available < 4:
            return None
        (size,) = _LENGTH.unpack_from(self._view, start)
        if size > self.max_frame_bytes or size < 0:
            raise FrameTooLarge(f"a frame of {size} bytes; at most {self.max_frame_bytes} are taken")
        if available < size + 4:
            return None
        self._start = start + 4 + size
        return self._view[start + 4 : self._start]

    def park(self) -> bool:
        """Keep the bytes that were not taken, as other connections are about to use the shared buffer.

        False if the pool has no room for the frame under way: `park` again once it has; nothing is lost meanwhile.
        """
        if self._own is not None:
            if self._start == self._end:
                self._drop_own()
            elif self._start:
                rest = bytes(self._view[self._start : self._end])
                self._drop_own()
                return self._keep(rest)
            return True
        if self._view is not self._shared:
            if self._first_is_whole():
                return True  # kept already, and not copied again at each turn
            rest = bytes(self._view[self._start : self._end])
        elif self._start == self._end:
            return True
        else:
            return self._keep(self._shared[self._start : self._end])
        return self._keep(rest)

    @property
    def parked_whole_frames(self) -> bool:
        """True if bytes of received requests wait here, as the connection was held while another request waited."""
        if self._own is not None:
            return self._end == self._wanted_end()
        return self._view is not self._shared and self._end - self._start >= 4

    @property
    def waits_for_bytes(self) -> bool:
        """True if the frame under way has memory and wants no more yet: its client has to go on."""
        own = self._own
        return own is not None and not self.refused and self._end < _LENGTH.unpack_from(own)[0] + 4

    def close(self) -> None:
        self.give_up, self.held = _nothing, _never
        self._set_aside(0)
        if self._own is not None:
            self._drop_own()

    @property
    def parks_too_much(self) -> bool:
        """True if requests wait here behind others while the pool has lent more than it may: they came unasked."""
        return self._parked_bytes > _SMALL and self._pool.lent_bytes > self._pool.budget_bytes

    def _set_aside(self, size: int) -> None:
        pool, before = self._pool, self._parked_bytes
        if before > _SMALL:
            del pool.holders[self]
        if size > _SMALL:
            pool.holders[self] = pool.now
        pool.lent_bytes += size - before
        self._parked_bytes = size

    def _keep(self, rest: bytes | memoryview) -> bool:
        """Copy bytes to where `target` goes on; once only, since a copy of a megabyte is fresh memory each time."""
        self._carried = b""
        if self._parked_bytes:
            self._set_aside(0)
        if len(rest) >= 4:
            (size,) = _LENGTH.unpack_from(rest)
            whole = size + 4 <= len(rest)
            if whole or size < 0 or size > self.max_frame_bytes:
                self._set_aside(len(rest))
                self._view = memoryview(bytes(rest))
                self._start, self._end = 0, len(rest)
                return True
            if size + 4 > _SMALL:
                own = self._take(min(size + 4, max(_CLASSES[0], 4 * len(rest))))
                if own is None:
                    self._view = memoryview(bytes(rest))
                    self._start, self._end = 0, len(rest)
                    return False
                own[: len(rest)] = rest
                self._own = own
                self._pool.holders[self] = self._pool.now
                self._view = self._buffer = memoryview(own)
                self._start, self._end = 0, len(rest)
                return True
        self._carried = bytes(rest)
        self._view = self._shared
        self._start = self._end = 0
        return True

    def _first_is_whole(self) -> bool:
        available = self._end - self._start
        return available >= 4 and 0 <= _LENGTH.unpack_from(self._view, self._start)[0] <= available - 4

    def _wanted_end(self) -> int:
        (size,) = _LENGTH.unpack_from(self._view, 0)
        return min(int(size) + 4, len(self._view))

    def _take(self, size: int) -> bytearray | None:
        buffer = self._pool.take(size)
        self.refused = buffer is None
        return buffer

    def _grow(self, own: bytearray) -> bytearray | None:
        (size,) = _LENGTH.unpack_from(own)
        larger = self._take(min(size + 4, 4 * len(own)))
        if larger is None:
            return None
        larger[: len(own)] = own
        self._pool.give(own)
        self._own = larger
        self._view = self._buffer = memoryview(larger)
        return larger

    def _drop_own(self) -> None:
        assert self._own is not None
        del self._pool.holders[self]
        self._pool.give(self._own)
        self._own = None
        self._buffer = None
        self._view = self._shared
        self._start = self._end = 0


def _nothing() -> None:
    pass


def _never() -> bool:
    return False
