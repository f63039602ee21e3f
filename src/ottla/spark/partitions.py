"""The partition of each row: the column `partition`, else murmur2 of the key as Java clients do, else spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[np.int32]]
_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
_LENGTH_MASK = 0xFFFFFFFF
_LONG, _FEW = 256, 64
"""A key of at least `_LONG` words is hashed by itself, in Python's numbers, unless more than `_FEW` keys are as long.

A step over an array takes as long for one key as for many, and far longer than one over Python's numbers.
"""
_PIECE = 1 << 16
"""The words of a long key that become Python's numbers at once."""


def murmur2(keys: pa.Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Kafka's 32-bit murmur2 of every key, four bytes of all keys at a time; nulls hash as empty."""
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    size = int(offsets[-1]) if len(offsets) else 0
    content = np.zeros(size + 4, dtype=np.uint8)
    if data_buffer is not None and size:
        content[:size] = np.frombuffer(data_buffer, dtype=np.uint8)[:size]
    starts, lengths = offsets[:-1], np.diff(offsets)
    with np.errstate(over="ignore"):
        value = (_SEED ^ (lengths & _LENGTH_MASK).astype(np.uint32)).astype(np.uint32)
        words = lengths >> 2
        rows = np.arange(len(starts))
        for word in range(int(words.max(initial=0))):
            rows = rows[words[rows] > word]
            if word >= _LONG and len(rows) <= _FEW:
                for row in rows.tolist():
                    place, end = int(starts[row]), int(starts[row] + 4 * words[row])
                    value[row] = _rest(int(value[row]), content[place + 4 * word : end])
                break
            at = starts[rows] + 4 * word
            k = _word(content, at) * _M
            k = (k ^ (k >> np.uint32(24))) * _M
            value[rows] = value[rows] * _M ^ k
        tails = lengths & 3
        rows = np.flatnonzero(tails)
        mask = ((np.uint64(1) << (tails[rows].astype(np.uint64) * np.uint64(8))) - np.uint64(1)).astype(np.uint32)
        tail = _word(content, starts[rows] + 4 * words[rows]) & mask
        value[rows] = (value[rows] ^ tail) * _M
        value = (value ^ (value >> np.uint32(13))) * _M
        hashed: np.ndarray[Any, np.dtype[np.uint32]] = value ^ (value >> np.uint32(15))
        return hashed


def _rest(value: int, content: np.ndarray[Any, np.dtype[np.uint8]]) -> int:
    """The value of one key's hash after these bytes, which are whole words."""
    for place in range(0, len(content), 4 * _PIECE):
        k = content[place : place + 4 * _PIECE].view("<u4") * _M
        for word in ((k ^ (k >> np.uint32(24))) * _M).tolist():
            value = (value * 0x5BD1E995 & 0xFFFFFFFF) ^ word
    return value


def _word(content: np.ndarray[Any, Any], at: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    parts = [content[at + place].astype(np.uint32) << np.uint32(8 * place) for place in range(4)]
    word: np.ndarray[Any, np.dtype[np.uint32]] = parts[0] | parts[1] | parts[2] | parts[3]
    return word


def choose(keys: pa.Array | None, given: pa.Array | None, rows: int, count: int, spread: Numbers) -> Numbers:
    """A partition for each row of a topic with `count` of them; `spread` is for rows without key and partition.

    ValueError where a given partition does not exist.
    """
    chosen = spread[:rows].copy()
    if keys is not None and keys.null_count < rows:
        hashed = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)
        if keys.null_count:
            present = keys.is_valid().to_numpy(zero_copy_only=False)
            chosen[present] = hashed[present]
        else:
            chosen = hashed
    if given is not None and given.null_count < rows:
        present = given.is_valid().to_numpy(zero_copy_only=False)
        wanted = given.fill_null(0).to_numpy(zero_copy_only=False)
        wrong = wanted[present & ((wanted < 0) | (wanted >= count))]
        if len(wrong):
            raise ValueError(f"Invalid partition given with record: {wrong[0]} is not in the range [0...{count}).")
        chosen[present] = wanted[present]
    return chosen


def spread_rows(rows: int, bytes_each: float, count: int, turn: int, batch_bytes: int) -> tuple[Numbers, int]:
    """Spread rows without a key, about a batch to each partition in turn; and the partition whose turn is next."""
    run = max(1, int(batch_bytes / max(bytes_each, 1.0)))
    numbers = ((turn + np.arange(rows) // run) % count).astype(np.int32)
    return numbers, (turn + (rows + run - 1) // run) % count
