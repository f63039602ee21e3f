"""Cuts bytes into lines, and counts the bytes that they take. Pure."""

from __future__ import annotations

import re

_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\n|\r(?=.))", re.DOTALL)
"""A line and its end. A \\r at the very end waits for the next byte, which may be the \\n that belongs to it."""


class Lines:
    """Holds the bytes of a file that were read and not yet handed out as lines."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        """The position, in bytes, behind the last line that was handed out."""
        self._held = b""

    @property
    def read_through(self) -> int:
        """The position of the next byte to feed."""
        return self.position + len(self._held)

    def feed(self, content: bytes) -> None:
        """Take the bytes that follow."""
        self._held += content

    def take(self, most: int) -> list[tuple[bytes, int]]:
        """At most so many whole lines, each with the position behind it."""
        found: list[tuple[bytes, int]] = []
        end = 0
        for match in _LINE.finditer(self._held):
            if len(found) == most:
                break
            end = match.end()
            found.append((match[1], self.position + end))
        self._held = self._held[end:]
        self.position += end
        return found

    def rest(self) -> list[tuple[bytes, int]]:
        """The last line of a file that nobody will complete, if there is one."""
        if not self._held:
            return []
        line, self.position, self._held = self._held.rstrip(b"\r"), self.read_through, b""
        return [(line, self.position)]
