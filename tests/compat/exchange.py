"""The values that the client tests write and expect to read back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EPOCH_MS = 1_700_000_000_000
BROKERS = int(os.environ.get("OTTLA_COMPAT_BROKERS", "1"))
"""The number of brokers at the given address; a topic has a replica on each."""


def values(count: int, *, prefix: str = "value") -> list[bytes]:
    """Compressible values, each different."""
    return [f"{prefix}-{number:05d}-".encode() + b"abc" * (number % 50) for number in range(count)]


def until(
    done: Callable[[], object], *, what: str, within_s: float = 300.0, step: Callable[[], object] | None = None
) -> None:
    """Call `step` (or let time pass) until `done`; raise an AssertionError that names the missing event."""
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        if step is None:
            time.sleep(0.02)
        else:
            step()
