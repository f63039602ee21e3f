"""Shared by the storage tests: making batches and logs on any disk, and reading a log back."""

from __future__ import annotations

from pathlib import Path

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Disk
from ottla.records.batch import Batch, iterate_batches
from ottla.records.builder import build_batch
from ottla.records.reader import Record, read_run
from ottla.sim.disk import SimDisk
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FoundPartition
from ottla.storage.disk.local import LocalDisk
from ottla.storage.log import Log
from ottla.storage.values import TAIL_BYTES, Appended, LogRead, Origin

TOPIC_ID = bytes(range(16))
DAY_MS = 86_400_000
T0 = 1_700_000_000_000
PLACE = "/data/t-0"


def config(**values: object) -> TopicConfig:
    return TopicConfig(**values)


def a_batch(
    *values: bytes,
    timestamp: int = T0,
    key: bytes | None = None,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
) -> Batch:
    """One batch with a record per value, as a producer sends it."""
    records = [Record(at, timestamp, key, value) for at, value in enumerate(values or (b"value",))]
    return Batch(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def settings(options: TopicConfig, synced: list[int] | None = None) -> dict[str, object]:
    heard = synced if synced is not None else []
    return {
        "topic": "t",
        "partition": 0,
        "topic_id": TOPIC_ID,
        "config": options,
        "wall_ms": T0,
        "producer_expiration_ms": DAY_MS,
        "on_synced": heard.append,
    }


def a_log(disk: Disk | None = None, synced: list[int] | None = None, directory: str = PLACE, **options: object) -> Log:
    disk = disk or SimDisk()
    if isinstance(disk, SimDisk):  # as a log directory does
        disk.make_directory("/data")
        disk.sync_directory("/")
    return Log.create(disk, directory, **settings(config(**options), synced))  # type: ignore[arg-type]


def reopened(
    log: Log,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    disk: Disk | None = None,
    tail_bytes: int = TAIL_BYTES,
) -> Log:
    return Log.open(
        disk or log.disk,
        log.directory,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        tail_bytes=tail_bytes,
        **settings(log.config),  # type: ignore[arg-type]
    )


def put(
    log: Log, batch: Batch, *, leader_epoch: int = 0, wall_ms: int = T0, origin: Origin = Origin.CLIENT
) -> Appended:
    """Append a batch, which must succeed; the coordinator of its transaction, if any, has agreed."""
    guard = None
    if batch.is_transactional and not batch.is_control:
        sequence = batch.base_sequence
        guard = log.producers.guard(batch.producer_id, batch.producer_epoch, sequence, bumps=False, now_ms=wall_ms)
    appended = log.append(batch, leader_epoch=leader_epoch, wall_ms=wall_ms, origin=origin, guard=guard)
    assert isinstance(appended, Appended), appended
    return appended


def read_at(log: Log, offset: int, max_bytes: int = 1 << 20, *, limit: int | None = None, **how: bool) -> LogRead:
    found = log.read(offset, max_bytes, limit_offset=log.end_offset if limit is None else limit, **how)
    assert not isinstance(found, ErrorCode), found
    return found


def records_of(
    log: Log, start: int | None = None, *, limit: int | None = None, max_bytes: int = 1 << 20
) -> list[Record]:
    """All records up to the limit, read as a consumer does."""
    records: list[Record] = []
    offset = log.log_start_offset if start is None else start
    end = log.end_offset if limit is None else limit
    while offset < end:
        found = read_at(log, offset, max_bytes, limit=end)
        if not found.slices:
            break
        body = found.data()
        batches = list(iterate_batches(body))
        assert batches, "not even one whole batch"
        records += [record for record in read_run(body) if record.offset >= offset]
        offset = batches[-1].next_offset
    return records


def read_all(log: Log) -> tuple[dict[int, bytes | None], list[int]]:
    """Records by offset, and the refused offsets; a reader goes on after a refusal."""
    found: dict[int, bytes | None] = {}
    refused: list[int] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        read = log.read(offset, 1 << 20, limit_offset=log.end_offset)
        if isinstance(read, ErrorCode):
            assert read is ErrorCode.KAFKA_STORAGE_ERROR
            refused.append(offset)
            offset += 1
            continue
        body = read.data()
        batches = list(iterate_batches(body))
        if not batches:
            break
        assert all(batch.crc_holds() for batch in batches)
        found.update({record.offset: record.value for record in read_run(body) if record.offset >= offset})
        assert batches[-1].next_offset > offset
        offset = batches[-1].next_offset
    return found, refused


def values_of(log: Log, **how: int) -> list[bytes | None]:
    return [record.value for record in records_of(log, **how)]


def sync(log: Log) -> None:
    """Do one complete sync as the syncer does it."""
    work = log.begin_sync()
    if work is None:
        return
    try:
        for file in work.files:
            file.sync()
        for directory in work.directories:
            log.disk.sync_directory(directory)
    except OSError as fault:
        log.end_sync(work, fault)
        raise
    log.end_sync(work, None)


def roll_and_commit(log: Log) -> None:
    """Begin a segment; all records before it are synced and committed."""
    log.roll(log.end_offset, T0)
    sync(log)
    log.set_high_watermark(log.end_offset)


def a_directory(disk: Disk, **how: object) -> LogDirectory:
    values: dict[str, object] = {"cluster_id": "cluster", "node_id": 1, "new_directory_id": "A" * 22}
    return LogDirectory.open(disk, "/data", **(values | how))  # type: ignore[arg-type]


def local_directory(path: Path, **how: object) -> LogDirectory:
    """A log directory on the machine's own disk, locked as a broker locks it."""
    disk = LocalDisk()
    values: dict[str, object] = {"cluster_id": "c", "node_id": 1, "new_directory_id": "A" * 22, "lock": disk.lock}
    return LogDirectory.open(disk, str(path), **(values | how))  # type: ignore[arg-type]


def new_log(
    directory: LogDirectory, topic: str = "t", partition: int = 0, topic_id: bytes = TOPIC_ID, **options: object
) -> Log:
    """A log made in a directory, with options of its topic."""
    return directory.create_log(
        topic,
        partition,
        topic_id,
        config=config(**options),
        wall_ms=T0,
        producer_expiration_ms=DAY_MS,
        on_synced=lambda _: None,
    )


def only_log(directory: LogDirectory, **options: object) -> Log:
    """Open the only log that was found in a directory."""
    (found,) = directory.found
    return open_found(directory, found, **options)


def open_found(directory: LogDirectory, found: FoundPartition, **options: object) -> Log:
    return directory.open_log(
        found, config=config(**options), wall_ms=T0, producer_expiration_ms=DAY_MS, on_synced=lambda _: None
    )


def reopened_directory(path: Path) -> tuple[LogDirectory, Log]:
    """A directory of the machine's own disk after a start, and its only log."""
    directory = local_directory(path)
    return directory, only_log(directory)


def move_recovery_point(directory: LogDirectory, log: Log) -> None:
    """Move the recovery point to the end of a log, and write it down."""
    assert log.move_recovery_point()
    sync(log)
    assert log.recovery_point == log.end_offset and not log.move_recovery_point()
    directory.checkpoint_recovery_points()
