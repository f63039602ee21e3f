"""Chooses between the compiled part and its pure twin; both give the same answer on the same bytes.

`OTTLA_PURE=1` in the environment forces the pure one; `which()` says what runs, for `ottla doctor`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from ottla.kernel.seams import Buffer
from ottla.records import _fallback, _fallback_columns

if TYPE_CHECKING:
    from ottla.records.batch import Batch

__all__ = [
    "FORCED_PURE",
    "KEYLESS",
    "MOST_OFFENDERS",
    "UNTIMELY",
    "append_record",
    "append_run",
    "compiled_crc32c",
    "decode",
    "encode",
    "missing",
    "offenders",
    "read",
    "scan",
    "which",
]

KEYLESS, UNTIMELY = 1, 2
MOST_OFFENDERS = 1000
"""The most refused records that one answer names."""

FORCED_PURE = os.environ.get("OTTLA_PURE", "") not in ("", "0")
"""True if nothing compiled is wanted."""
_why_pure = "OTTLA_PURE is set"
_native: ModuleType | None = None
if not FORCED_PURE:
    try:
        _native = importlib.import_module("ottla.records._records")
    except ImportError as fault:
        _why_pure = f"the compiled part is not there: {fault}"

if TYPE_CHECKING:
    # Both parts have these signatures.
    from ottla.records._fallback import append_record, append_run, read, scan
    from ottla.records._fallback import offenders as _offenders
    from ottla.records._fallback_columns import decode, encode
else:
    _part = _fallback if _native is None else _native
    _columns = _fallback_columns if _native is None else _native
    decode = _columns.decode
    encode = _columns.encode
    append_record = _part.append_record
    append_run = _part.append_run
    read = _part.read
    scan = _part.scan
    _offenders = _part.offenders


def compiled_crc32c() -> Callable[[Buffer, int], int] | None:
    """The compiled part's CRC-32C where there is one."""
    return None if _native is None else _native.crc32c


def offenders(payload: Buffer, batch: Batch, need_keys: bool, bounds: tuple[int, int]) -> list[tuple[int, int]]:
    """The records of a sound payload that have no key though they need one, or a timestamp out of bounds."""
    earliest, latest = bounds
    return _offenders(payload, batch.records_count, batch.base_timestamp, need_keys, earliest, latest, MOST_OFFENDERS)


def missing() -> str | None:
    """The reason why the compiled part is missing; None where it is used, or was forbidden."""
    return _why_pure if _native is None and not FORCED_PURE else None


def which() -> str:
    """`compiled (crc32c by SSE4.2)` or `pure Python (why)`."""
    if _native is None:
        return f"pure Python ({_why_pure})"
    return f"compiled (crc32c by {_native.crc32c_kind()})"
