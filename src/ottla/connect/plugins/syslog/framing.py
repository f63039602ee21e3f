"""Cuts a TCP stream into syslog messages: by their counted octets or by newlines, as RFC 6587 has both. Pure."""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 10


class BadFrame(ValueError):
    """The stream cannot be cut any further."""


class Frames:
    """The frames of one connection."""

    def __init__(self, most: int) -> None:
        """`most`: the bytes of the longest message."""
        self._most = most
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """The messages that are whole now; `BadFrame` where the stream is none of syslog."""
        self._rest += piece
        found: list[bytes] = []
        at = 0
        while (frame := self._next(at)) is not None:
            start, end, at = frame
            if end > start:
                found.append(bytes(self._rest[start:end]))
        del self._rest[:at]
        return found

    def end(self) -> list[bytes]:
        """The last message, which needs no newline at the end of the stream; `BadFrame` if it was cut."""
        if not self._rest:
            return []
        if self._rest[:1].isdigit():
            raise BadFrame("the connection ended inside a message")
        return [bytes(self._rest)]

    def _next(self, at: int) -> tuple[int, int, int] | None:
        """The beginning and end of the next message, and the beginning of the one behind it."""
        rest = self._rest
        if at >= len(rest):
            return None
        if not 0x30 <= rest[at] <= 0x39:
            end = rest.find(b"\n", at)
            if (len(rest) if end < 0 else end) - at > self._most:
                raise BadFrame(f"a message has more than max.message.bytes={self._most}")
            return None if end < 0 else (at, end, end + 1)
        blank = rest.find(b" ", at, at + _MOST_DIGITS + 1)
        digits = bytes(rest[at : blank if blank >= 0 else at + _MOST_DIGITS + 1])
        if not digits.isdigit() or len(digits) > _MOST_DIGITS:
            raise BadFrame("a message begins neither with < nor with its length")
        if blank < 0:
            return None
        if int(digits) > self._most:
            raise BadFrame(f"a message has {int(digits)} bytes, more than max.message.bytes={self._most}")
        end = blank + 1 + int(digits)
        return (blank + 1, end, end) if end <= len(rest) else None
