"""CRC-32C over any buffer: the compiled part's own where it is there, else google-crc32c's."""

from __future__ import annotations

from collections.abc import Callable

from ottla.kernel.seams import Buffer
from ottla.records import compiled


def _by_library(buffer: Buffer, initial: int = 0) -> int:
    import google_crc32c

    crc: int = google_crc32c.extend(initial, bytes(buffer))
    return crc


_implementation: Callable[[Buffer, int], int] = compiled.compiled_crc32c() or _by_library


def crc32c(buffer: Buffer, initial: int = 0) -> int:
    """The CRC-32C of `buffer`; `initial` is the CRC of what came before it."""
    return _implementation(buffer, initial)
