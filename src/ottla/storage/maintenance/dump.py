"""The files of a log in words, line by line as Apache Kafka's DumpLogSegments prints them.

For `ottla log dump` and `kafka-dump-log`; next door is `scan.py`. Files are only read. Contradictions (an index entry
that points at no batch) are printed at the end, as by Kafka's tool.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.kernel.seams import Disk, OpenFile
from ottla.records.batch import Batch
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.header import COMPRESSION_MASK, DELETE_HORIZON_BIT, TIMESTAMP_TYPE_BIT
from ottla.records.reader import Record, read_records
from ottla.storage import checkpoint
from ottla.storage.producers.producers import INT_MAX
from ottla.storage.producers.snapshot import SNAPSHOT, BadSnapshot, decode_snapshot
from ottla.storage.segment import aborted
from ottla.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.segment.names import ABORTED_INDEX, INDEX, LOG, TIME_INDEX
from ottla.storage.segment.scan import ScannedHeader, counted_timestamp, scan_batches, scan_headers

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_SUFFIXES = (LOG, INDEX, TIME_INDEX, ABORTED_INDEX, SNAPSHOT)
_OFFSET_CHECKPOINTS = (checkpoint.RECOVERY_POINT, checkpoint.LOG_START, checkpoint.REPLICATION, checkpoint.CLEANER)
_PROPERTIES = (checkpoint.PARTITION_METADATA, checkpoint.META_PROPERTIES)
_NAMES = (*_OFFSET_CHECKPOINTS, checkpoint.LEADER_EPOCHS, *_PROPERTIES)
Decode = Callable[[Record], tuple[str, str]]
"""Key and payload of a record as texts: for topics whose records have a known form."""


class UnknownFile(Exception):
    """A name that no part of a log has."""


class UnreadableFile(Exception):
    """The file cannot be read; the text says why."""


class Complaint(str):
    """A line about a contradiction between files: Kafka's tool prints these on stderr."""

    __slots__ = ()


class DumpOptions(NamedTuple):
    """The flags of Kafka's tool."""

    deep: bool = False
    """--deep-iteration: the records too."""
    print_data: bool = False
    """--print-data-log: with keys and values."""
    skip_metadata: bool = False
    """--skip-record-metadata: keys and values only, and no control records."""
    max_bytes: int = INT_MAX
    """--max-bytes of batches per file."""
    verify_index_only: bool = False
    """--verify-index-only: no entries, only those that are wrong."""
    index_sanity_check: bool = False
    decode: Decode | None = None


DEFAULT_OPTIONS = DumpOptions()


def dump_file(disk: Disk, path: str, options: DumpOptions = DEFAULT_OPTIONS) -> Iterator[str]:
    """The lines for one file, by the kind that its name tells; UnknownFile for other names; UnreadableFile.

    An unknown name is not looked for on the disk, as by Kafka's tool, unless it is that of a directory.
    """
    name = posixpath.basename(path)
    stem, suffix = posixpath.splitext(name)
    if disk.is_directory(path):
        raise UnreadableFile(f"{path}: a directory, not a file of a log")
    if (suffix in _SUFFIXES or name in _NAMES) and not disk.exists(path):
        raise UnreadableFile(f"{path}: no such file")
    if suffix in (LOG, INDEX, TIME_INDEX) and not stem.isdigit():
        raise UnreadableFile(f"{path}: its name is not an offset, as those of a log's files are")
    yield f"Dumping {path}"
    if suffix == LOG:
        yield from _dump_log(disk, path, int(stem), options)
    elif suffix == INDEX:
        yield from _dump_index(disk, path, int(stem), options)
    elif suffix == TIME_INDEX:
        yield from _dump_time_index(disk, path, int(stem), options)
    elif suffix == ABORTED_INDEX:
        yield from _dump_aborted(disk, path)
    elif suffix == SNAPSHOT:
        yield from _dump_snapshot(disk, path)
    elif name in _OFFSET_CHECKPOINTS:
        for place, offset in sorted(checkpoint.read_offsets(disk, path).items()):
            yield f"topic: {place.topic} partition: {place.partition} offset: {offset}"
    elif name == checkpoint.LEADER_EPOCHS:
        for epoch, start in checkpoint.read_epochs(disk, path):
            yield f"leaderEpoch: {epoch} startOffset: {start}"
    elif name in _PROPERTIES:
        for key, value in checkpoint.parse_properties(disk.read(path).decode("utf-8", "replace")).items():
            yield f"{key}: {value}"
    else:
        raise UnknownFile(f"Ignoring unknown file {path}")


# -- batches ---


def _dump_log(disk: Disk, path: str, base_offset: int, options: DumpOptions) -> Iterator[str]:
    yield f"Log starting offset: {base_offset}"
    deep = options.deep or options.print_data or options.decode is not None
    file = disk.open(path)
    previous = -1
    gaps: list[tuple[int, int]] = []
    try:
        position, size = 0, file.size()
        for header, view in scan_batches(file, 0, size):
            if header.position >= options.max_bytes:
                break
            position = header.position + header.size
            batch = Batch(view)
            yield _batch_line(header, batch)
            if not deep:
                continue
            try:
                records = read_records(batch)
            except CorruptRecords as fault:
                yield f"| records cannot be read: {fault}"
                continue
            for record in records:
                if 0 <= previous != record.offset - 1:
                    gaps.append((previous, record.offset))
                previous = record.offset
                yield from _record_lines(record, batch, options)
        if position < min(size, options.max_bytes):
            yield Complaint(f"Found {size - position} invalid bytes at the end of {posixpath.basename(path)}")
    finally:
        file.release()
    if gaps:
        yield Complaint(f"Non-consecutive offsets in {path}")
        for first, second in gaps:
            yield Complaint(f"  {first} is followed by {second}")


def _batch_line(header: ScannedHeader, batch: Batch) -> str:
    codec = header.attributes & COMPRESSION_MASK
    horizon = (
        f"OptionalLong[{header.base_timestamp}]" if header.attributes & DELETE_HORIZON_BIT else "OptionalLong.empty"
    )
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {batch.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)} "
        f"deleteHorizonMs: {horizon} position: {header.position} {_time_type(batch)}: {header.max_timestamp} "
        f"size: {header.size} magic: {header.magic} "
        f"compresscodec: {_CODECS[codec] if codec < len(_CODECS) else codec} crc: {header.crc} "
        f"isvalid: {_java(batch.crc_holds())}"
    )


def _record_lines(record: Record, batch: Batch, options: DumpOptions) -> Iterator[str]:
    if options.skip_metadata and batch.is_control:
        return
    line = "|"
    if not options.skip_metadata:
        sequence = -1
        if batch.base_sequence >= 0:
            sequence = (batch.base_sequence + record.offset - batch.base_offset) & INT_MAX
        line += (
            f" offset: {record.offset} {_time_type(batch)}: {record.timestamp} keySize: {_size(record.key)} "
            f"valueSize: {_size(record.value)} sequence: {sequence} "
            f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
        )
    if batch.is_control:
        line += _marker_words(batch)
    elif options.print_data or options.decode is not None:
        key, payload = options.decode(record) if options.decode is not None else _texts(record)
        line += f" key: {key}" if record.key is not None else ""
        line += f" payload: {payload}" if record.value is not None else ""
    yield line


def _marker_words(batch: Batch) -> str:
    try:
        ending = read_marker(batch)
    except CorruptRecords as fault:
        return f" {fault}"
    if ending is None:
        return " controlType: UNKNOWN"
    return f" endTxnMarker: {Marker(ending.marker).name} coordinatorEpoch: {ending.coordinator_epoch}"


def _texts(record: Record) -> tuple[str, str]:
    key = record.key.decode("utf-8", "replace") if record.key is not None else ""
    return key, record.value.decode("utf-8", "replace") if record.value is not None else ""


def _size(field: bytes | None) -> int:
    return -1 if field is None else len(field)


def _time_type(batch: Batch) -> str:
    return "LogAppendTime" if batch.attributes & TIMESTAMP_TYPE_BIT else "CreateTime"


def _java(value: bool) -> str:
    return "true" if value else "false"


# -- indexes ---


def _dump_index(disk: Disk, path: str, base_offset: int, options: DumpOptions) -> Iterator[str]:
    name = posixpath.basename(path)
    body = disk.read(path)
    whole = len(body) - len(body) % OFFSET_ENTRY.size
    entries = _before_padding(list(OFFSET_ENTRY.iter_unpack(body[:whole])), 0)
    if options.index_sanity_check:
        yield _sanity(name, body, OFFSET_ENTRY.size, entries[-1][0] if entries else 0)
        return
    if not entries:
        yield f"{path} is empty."
        return
    wrong: list[tuple[int, int]] = []
    file = _log_beside(disk, path, INDEX)
    try:
        for relative, position in entries:
            if file is not None:
                header = next(scan_headers(file, position, file.size()), None)
                if header is None or header.last_offset != relative + base_offset:
                    wrong.append((relative + base_offset, header.last_offset if header is not None else -1))
            if not options.verify_index_only:
                yield f"offset: {relative + base_offset} position: {position}"
    finally:
        if file is not None:
            file.release()
    if wrong:
        yield Complaint(f"Mismatches in :{path}")
        for indexed, found in wrong:
            yield Complaint(f"  Index offset: {indexed}, log offset: {found}")


def _dump_time_index(disk: Disk, path: str, base_offset: int, options: DumpOptions) -> Iterator[str]:
    name = posixpath.basename(path)
    body = disk.read(path)
    whole = len(body) - len(body) % TIME_ENTRY.size
    entries = _before_padding(list(TIME_ENTRY.iter_unpack(body[:whole])), 1)
    if options.index_sanity_check:
        yield _sanity(name, body, TIME_ENTRY.size, entries[-1][1] if entries else 0)
        return
    wrong: list[str] = []
    falling: list[str] = []
    batches = _largest_timestamps(disk, path)
    before = -1
    for timestamp, relative in entries:
        offset = relative + base_offset
        if batches is not None and (found := batches.get(offset)) != timestamp:
            wrong.append(f"  Index timestamp: {timestamp}, log timestamp: {-1 if found is None else found}")
        if timestamp <= before:
            falling.append(f"  Index timestamp: {before}, next timestamp: {timestamp}")
        before = timestamp
        if not options.verify_index_only:
            yield f"timestamp: {timestamp} offset: {offset}"
    if wrong:
        yield Complaint(f"Found timestamp mismatch in :{path}")
        yield from map(Complaint, wrong)
    if falling:
        yield Complaint(f"Found out of order timestamp in :{path}")
        yield from map(Complaint, falling)


def _before_padding(entries: list[tuple[int, ...]], place: int) -> list[tuple[int, ...]]:
    """Entries up to the zeros with which Kafka preallocates the indexes of its active segment."""
    end = next((number for number, entry in enumerate(entries) if number and not entry[place]), len(entries))
    return entries[:end]


def _largest_timestamps(disk: Disk, path: str) -> dict[int, int] | None:
    """The largest timestamp of each batch of the log beside an index, by its last offset."""
    file = _log_beside(disk, path, TIME_INDEX)
    if file is None:
        return None
    try:
        return {header.last_offset: counted_timestamp(header) for header in scan_headers(file, 0, file.size())}
    finally:
        file.release()


def _log_beside(disk: Disk, path: str, suffix: str) -> OpenFile | None:
    log = path.removesuffix(suffix) + LOG
    return disk.open(log) if disk.exists(log) else None


def _sanity(name: str, body: bytes, entry_bytes: int, last_relative: int) -> str:
    if len(body) % entry_bytes:
        return f"{name} is corrupt: {len(body)} bytes are not a multiple of {entry_bytes}."
    if last_relative < 0:
        return f"{name} is corrupt: its last offset lies below its base."
    return f"{name} passed sanity check."


# -- producers and transactions ---


def _dump_aborted(disk: Disk, path: str) -> Iterator[str]:
    for entry in aborted.AbortedIndex(disk, path).entries:
        yield (
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )


def _dump_snapshot(disk: Disk, path: str) -> Iterator[str]:
    try:
        producers = decode_snapshot(disk.read(path))
    except BadSnapshot as fault:
        yield f"Corrupt snapshot {path}: {fault}"
        return
    for producer_id, state in producers.items():
        start = "OptionalLong.empty" if state.transaction_start < 0 else f"OptionalLong[{state.transaction_start}]"
        line = (
            f"producerId: {producer_id} producerEpoch: {state.epoch} coordinatorEpoch: {state.coordinator_epoch} "
            f"currentTxnFirstOffset: {start} lastTimestamp: {state.last_timestamp} "
        )
        if state.marks:
            mark = state.marks[-1]
            line += (
                f"firstSequence: {mark.first_sequence} lastSequence: {mark.last_sequence} "
                f"lastOffset: {mark.last_offset} offsetDelta: {mark.offset_delta} timestamp: {mark.timestamp}"
            )
        yield line
