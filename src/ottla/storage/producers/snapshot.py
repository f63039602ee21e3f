"""Producer state on disk: Kafka's `.snapshot` file, version 1, one at each roll and one at a clean close.

Kafka keeps one batch per producer in it; we keep all five (a retry after a restart must be known again), the earlier
ones behind Kafka's entries, where its own reader does not look and its CRC still covers them. Behind those are the
transactions that have ended by a marker which was not known to be committed: else the last stable offset would pass it.
Last comes the time since which each producer is idle, by this broker: timestamps of records tell nothing of that.
"""

from __future__ import annotations

import posixpath
import struct

from ottla.kernel.seams import Disk, OpenFile
from ottla.records.checksum import crc32c
from ottla.storage.checkpoint import TEMPORARY
from ottla.storage.producers.producers import Mark, Producers, ProducerState

SNAPSHOT = ".snapshot"
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_MARK = struct.Struct(">iqiq")
_VERSION = 1
_TRAILER = b"ottla-marks-1"
_ENDED_TRAILER = b"ottla-ended-1"
_ENDED = struct.Struct(">qq")
_IDLE_TRAILER = b"ottla-idle-1"
_IDLE = struct.Struct(">q")


class BadSnapshot(Exception):
    """The file is torn, or is not a snapshot."""


def snapshot_path(directory: str, offset: int) -> str:
    return posixpath.join(directory, f"{offset:020d}{SNAPSHOT}")


def snapshot_offset(name: str) -> int | None:
    """The offset in a snapshot's name; None for other names."""
    digits = name[:20]
    return int(digits) if name.endswith(SNAPSHOT) and len(name) == 29 and digits.isdecimal() else None


def encode_snapshot(producers: Producers) -> bytes:
    entries = producers.items()
    parts = [_COUNT.pack(len(entries))]
    for producer_id, state in entries:
        last = state.marks[-1] if state.marks else Mark(-1, -1, 0, state.last_timestamp)
        parts.append(
            _ENTRY.pack(
                producer_id,
                state.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                state.last_timestamp,
                state.coordinator_epoch,
                state.transaction_start,
            )
        )
    parts.append(_TRAILER)
    for _, state in entries:
        parts.append(bytes((len(state.marks),)))
        parts += [_MARK.pack(*mark) for mark in state.marks]
    ended = producers.ended()
    parts += [_ENDED_TRAILER, _COUNT.pack(len(ended))]
    parts += [_ENDED.pack(*each) for each in ended]
    parts.append(_IDLE_TRAILER)
    parts += [_IDLE.pack(state.idle_since_ms) for _, state in entries]
    body = b"".join(parts)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(body: bytes) -> Producers:
    """The state in a snapshot of ours or of Apache Kafka's; BadSnapshot where it does not hold together."""
    if len(body) < _HEAD.size + _COUNT.size:
        raise BadSnapshot("too short")
    version, crc = _HEAD.unpack_from(body)
    if version != _VERSION:
        raise BadSnapshot(f"version {version}, expected {_VERSION}")
    if crc32c(memoryview(body)[_HEAD.size :]) != crc:
        raise BadSnapshot("its CRC does not hold")
    (count,) = _COUNT.unpack_from(body, _HEAD.size)
    at = _HEAD.size + _COUNT.size
    if count < 0 or count * _ENTRY.size > len(body) - at:
        raise BadSnapshot(f"{count} entries do not fit")
    states: list[tuple[int, ProducerState]] = []
    for _ in range(count):
        states.append(_decode_entry(body, at))
        at += _ENTRY.size
    producers = Producers()
    if body[at : at + len(_TRAILER)] == _TRAILER:
        at = _decode_marks(body, at + len(_TRAILER), [state for _, state in states])
        ended = _decode_ended(body, at)
        producers.restore_ended(ended or [])
        if ended is not None:
            at += len(_ENDED_TRAILER) + _COUNT.size + len(ended) * _ENDED.size
            _decode_idle(body, at, [state for _, state in states])
    for producer_id, state in states:
        producers.restore(producer_id, state)
    return producers


def _decode_entry(body: bytes, at: int) -> tuple[int, ProducerState]:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, start = _ENTRY.unpack_from(body, at)
    state = ProducerState(epoch)
    if offset >= 0:
        state.marks.append(Mark(sequence, offset, delta, timestamp))
    state.last_timestamp = timestamp
    state.coordinator_epoch = coordinator_epoch
    state.transaction_start = start
    return producer_id, state


def _decode_marks(body: bytes, at: int, states: list[ProducerState]) -> int:
    """Read the earlier batches of each producer; return the position behind them."""
    try:
        for state in states:
            count = body[at]
            at += 1
            state.marks.clear()
            for _ in range(count):
                state.marks.append(Mark(*_MARK.unpack_from(body, at)))
                at += _MARK.size
    except (IndexError, struct.error):
        raise BadSnapshot("the earlier batches are cut off") from None
    return at


def _decode_ended(body: bytes, at: int) -> list[tuple[int, int]] | None:
    """Transactions that had ended; None where an older version wrote the snapshot."""
    if body[at : at + len(_ENDED_TRAILER)] != _ENDED_TRAILER:
        return None
    at += len(_ENDED_TRAILER)
    try:
        (count,) = _COUNT.unpack_from(body, at)
        at += _COUNT.size
        return [_ENDED.unpack_from(body, at + place * _ENDED.size) for place in range(count)]
    except struct.error:
        raise BadSnapshot("the ended transactions are cut off") from None


def _decode_idle(body: bytes, at: int, states: list[ProducerState]) -> None:
    """Since when each producer is idle. Where an older version wrote the snapshot, that begins with the next look."""
    if body[at : at + len(_IDLE_TRAILER)] != _IDLE_TRAILER:
        return
    at += len(_IDLE_TRAILER)
    if len(body) - at < len(states) * _IDLE.size:
        raise BadSnapshot("the times of the producers are cut off")
    for place, state in enumerate(states):
        (state.idle_since_ms,) = _IDLE.unpack_from(body, at + place * _IDLE.size)


def write_snapshot(disk: Disk, directory: str, offset: int, producers: Producers) -> OpenFile:
    """Write the state as of `offset`; the file is handed back, held, for the next sync (rule B1).

    A file that is there already says the same and may be synced: an unsynced one in its place could lose both.
    """
    path = snapshot_path(directory, offset)
    if disk.exists(path):
        return disk.open(path)
    temporary = path + TEMPORARY
    disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.write_at(0, [encode_snapshot(producers)])
        disk.rename(temporary, path)
    except BaseException:
        file.release()
        raise
    return file


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """Offsets of the snapshots in a directory, rising."""
    names = [name for name in disk.list(directory) if name.endswith(SNAPSHOT)]
    return sorted(offset for name in names if (offset := snapshot_offset(name)) is not None)


def put_snapshot(disk: Disk, directory: str, offset: int, producers: Producers) -> None:
    """Write and sync a snapshot; durable once the directory is synced too."""
    file = write_snapshot(disk, directory, offset, producers)
    file.sync()
    file.release()


def load_newest(
    disk: Disk, directory: str, at_most: int, *, there: list[int] | None = None
) -> tuple[int, Producers] | None:
    """The newest snapshot at or below an offset that holds together; a torn one is removed and the next tried.

    `there`: the offsets of those in the directory, where they are known.
    """
    for offset in reversed(snapshot_offsets(disk, directory) if there is None else there):
        if offset > at_most:
            continue
        path = snapshot_path(directory, offset)
        try:
            return offset, decode_snapshot(disk.read(path))
        except BadSnapshot:
            disk.remove(path)
    return None
