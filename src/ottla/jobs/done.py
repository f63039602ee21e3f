"""The letters of one partition that were sent back: all below an offset, and single ones above it. Pure.

It is kept as a group's committed offset: the first letter that was not sent, and in the metadata the topic's id and
which letters above it were. So a filter may leave letters out, and a later run sends those and no other twice.
"""

from __future__ import annotations

import base64
import binascii
import zlib

MOST_METADATA = 4_000
"""Characters; brokers take 4096 (`offset.metadata.max.bytes`)."""
_MARK = "ottla-redrive:"


class ForeignPosition(ValueError):
    """The group's position was not committed by a redrive."""


class Done:
    """A set of offsets, all of them below `through` and some above."""

    def __init__(self, through: int, above: int = 0) -> None:
        self.through = through
        self._above = above
        """Bit n stands for the offset `through` + n; bit 0 is never set."""

    def __contains__(self, offset: int) -> bool:
        return offset < self.through or bool(self._above >> (offset - self.through) & 1)

    def add(self, first: int, last: int) -> None:
        """Add all offsets from `first` to `last`."""
        start = max(first, self.through)
        if last < start:
            return
        self._above |= ((1 << (last - start + 1)) - 1) << (start - self.through)
        run = ((~self._above) & (self._above + 1)).bit_length() - 1  # the ones at the low end
        self.through += run
        self._above >>= run

    def copy(self) -> Done:
        """Another with the same offsets."""
        return Done(self.through, self._above)

    def metadata(self, topic_id: bytes) -> str:
        """The text beside the committed offset `through`. It may be longer than MOST_METADATA."""
        bits = self._above.to_bytes((self._above.bit_length() + 7) // 8, "little")
        packed = base64.b85encode(zlib.compress(bits, 9)).decode() if bits else ""
        return f"{_MARK}{topic_id.hex()}:{packed}"


def read_done(offset: int, metadata: str, topic_id: bytes) -> Done | None:
    """From a committed offset; None where the topic was made anew since. ForeignPosition for other metadata."""
    mark, _, rest = metadata.partition(":")
    known_id, _, packed = rest.partition(":")
    if f"{mark}:" != _MARK:
        raise ForeignPosition("its position was not committed by `ottla redrive`")
    if known_id != topic_id.hex():
        return None
    try:
        bits = zlib.decompress(base64.b85decode(packed)) if packed else b""
    except (ValueError, zlib.error, binascii.Error):
        raise ForeignPosition("the metadata of its position is damaged") from None
    return Done(offset, int.from_bytes(bits, "little"))
