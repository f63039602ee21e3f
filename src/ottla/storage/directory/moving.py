"""A replica moves to another log directory: a future log beside the one that is served, and the swap of the two.

broker/replicas/moves.py comes here. The future log is `topic-partition.<id>-future` in the destination, as Apache Kafka
names it; whatever is appended to the served log is copied into it until both end alike. Then, in one turn of the loop:

1. `prepare`: all of the future log is on disk, with the served one's leader epochs and a snapshot of its producers; the
   destination's checkpoints know the replica; a mark (`moving`) in each of the two folders names the other directory.
2. `move_in`: the future folder is given its name, `topic-partition`; the destination is synced.
3. `move_out`: the folder that was served becomes a `-delete`; the source is synced.
4. `unmark`: the mark in the folder that is served from now on goes.

A step begins when the one before it is on disk. So a crash leaves one of these, and the next start does this with it:

- a `-future` folder: 2 is not on disk, so the replica is in the source and has all that was acknowledged. The future
  log is thrown away, and the move begins anew.
- the replica in both directories, marked in one at least: 3 is not on disk. Both hold the same, or one of them was
  served alone since, where the other directory failed in the middle of this: that one `is_newer`, and stays. A replica
  that is found twice without a mark is sorted out by replicas/twins.py, which notes a doubt in the same file.
- the replica in one of the two, marked, and not in the other: it is the one. The mark goes.
- the replica in one of the two, marked, while the other directory cannot be opened: the other may be the newer one, so
  this one is offline until the other directory can be opened or is taken out of `log.dirs`.
- the replica in one of the two, marked, while the other directory is not here any more, nor another disk in its place:
  what is newer may have gone with it, and the cluster is told so as of all that is missing. Then the mark goes.

Where 2 or 3 raises, the directory that it is about fails, and the replica is served from the other: there it is
`unmark`ed, since the one in the failed directory is not served any more, and its own mark says so.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress

from ottla.kernel.errors import ErrorCode, InvariantBroken
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import FileSlice
from ottla.storage.checkpoint import CLEANER, LOG_START, RECOVERY_POINT, REPLICATION
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FUTURE_SUFFIX
from ottla.storage.directory.move_notes import MOVING, write_move
from ottla.storage.log import Log
from ottla.storage.producers.snapshot import load_newest, put_snapshot
from ottla.storage.values import Appended


class Apart(Exception):
    """The two logs have no history in common any more: the copy is to begin anew."""


def future_name(place: TopicPartition, unique: str) -> str:
    return f"{place}.{unique}{FUTURE_SUFFIX}"


def begin(current: Log, destination: LogDirectory, unique: str, *, wall_ms: int) -> Log:
    """An empty future log that starts where the served one's files do, with the producers that are known there."""
    place = place_of(current)
    start = current.bases[0]
    path = posixpath.join(destination.path, future_name(place, unique))
    try:
        future = Log.create(
            current.disk,
            path,
            topic=current.topic,
            partition=current.partition,
            topic_id=current.topic_id,
            config=current.config,
            wall_ms=wall_ms,
            producer_expiration_ms=current.producer_expiration_ms,
            on_synced=_nobody,
            start_offset=start,
        )
    except OSError:
        with suppress(OSError):  # else the next start sets the folder aside
            if current.disk.exists(path):
                destination.set_aside(path, place, current.topic_id)
        raise
    if current.sparse:
        future.chain.met_hole()
    destination.futures[place] = future
    known = load_newest(current.disk, current.directory, start)
    if known is not None:
        future.producers.take_over(known[1])
        _put_snapshot(future)
    return future


def place_of(log: Log) -> TopicPartition:
    return TopicPartition(log.topic, log.partition)


# --- copying ---


def copy_some(current: Log, future: Log, max_bytes: int, *, wall_ms: int) -> int | ErrorCode:
    """Copy the next batches, at least one; return their bytes, 0 where both logs end alike.

    An error code says why nothing was copied (CORRUPT_MESSAGE: the served log is damaged).

    Raises Apart if no batch of the copy is in the served log's history any more.
    """
    _cut_back(current, future)
    offset = _next_offset(current, future)
    if offset < current.end_offset:
        if offset > future.end_offset:
            future.chain.met_hole()  # offsets that the served log has deleted since are a hole in its copy
        read = current.read(offset, max_bytes, limit_offset=current.end_offset)
        if isinstance(read, ErrorCode):
            return ErrorCode.CORRUPT_MESSAGE if read == ErrorCode.KAFKA_STORAGE_ERROR else read
        if read.bytes:
            appended = future.append_run(read.data(), wall_ms=wall_ms)
            if isinstance(appended, Appended) and future.end_offset <= offset:
                return ErrorCode.CORRUPT_MESSAGE  # not one whole batch came: a bit has flipped in its length
            return read.bytes if isinstance(appended, Appended) else appended
    if future.end_offset < current.end_offset:
        _end_alike(future, current.end_offset, wall_ms)
    return 0


def ahead(current: Log, future: Log, max_bytes: int) -> list[FileSlice]:
    """The slices that `copy_some` will read if nothing changes; the caller releases them."""
    offset = _next_offset(current, future)
    read = current.read(offset, max_bytes, limit_offset=current.end_offset) if offset < current.end_offset else None
    return [] if read is None or isinstance(read, ErrorCode) else read.slices


def _next_offset(current: Log, future: Log) -> int:
    return max(future.end_offset, current.log_start_offset)


def _cut_back(current: Log, future: Log) -> None:
    """Truncate the copy where the served log was truncated since: its history has other batches there (KIP-101)."""
    latest = future.latest_epoch
    if latest < 0:
        if future.end_offset > current.end_offset:
            raise Apart
        return
    known = current.epoch_end(latest)
    if known is not None and known.leader_epoch == latest and known.end_offset >= future.end_offset:
        return
    shared = _shared_end(current, future)
    if shared is None:
        raise Apart
    future.truncate_to(min(shared, future.end_offset))


def _shared_end(current: Log, future: Log) -> int | None:
    """The end of both logs in the latest epoch that both have."""
    epochs = {epoch for epoch, _ in current.epochs.entries}
    for epoch, _ in reversed(future.epochs.entries):
        if epoch in epochs:
            ends = (current.epoch_end(epoch), future.epoch_end(epoch))
            return min(end.end_offset for end in ends if end is not None)
    return None


def _end_alike(future: Log, end_offset: int, wall_ms: int) -> None:
    """Let the copy end where the served log does, which holds no batches in between: deleted, or compacted away."""
    if future.size_bytes == 0:
        future.truncate_fully_to(end_offset, wall_ms=wall_ms)
    else:
        future.end_behind(end_offset, wall_ms)


# --- the swap, in this order ---


def prepare(current: Log, source: LogDirectory, future: Log, destination: LogDirectory) -> None:
    """Put all of the future log on disk, when it ends where the served log does; may be repeated."""
    if future.end_offset != current.end_offset:
        raise InvariantBroken(f"{future.directory} ends at {future.end_offset}, the log that it replaces at "
                              f"{current.end_offset}")  # fmt: skip
    with future.disk.gathered(destination.path, source.path):
        future.epochs.replace(current.epochs.entries)
        _put_snapshot(future, current)
        future.sync_now()
        future.disk.sync_directory(future.directory)
        write_move(future.disk, future.directory, source=source.directory_id)
        write_move(current.disk, current.directory, target=destination.directory_id)
    _note_down(current, source, future, destination)  # not gathered: a crash finds each checkpoint old or new


def _note_down(current: Log, source: LogDirectory, future: Log, destination: LogDirectory) -> None:
    """Write the replica's offsets into the destination's checkpoints; a start drops them if the move was not done."""
    place = place_of(current)
    coming = {
        RECOVERY_POINT: future.recovery_point,
        LOG_START: current.log_start_offset,
        REPLICATION: current.high_watermark,
    }
    cleaned_to = source.offsets.cleaned_to(*place)
    destination.offsets.replace(place, coming if cleaned_to is None else coming | {CLEANER: cleaned_to})


def move_in(current: Log, future: Log, destination: LogDirectory) -> None:
    """Give the future log the replica's name; from here on a crash leaves a whole replica in the destination.

    The future log takes over the state of the served one. Nothing in memory has changed when this raises; if the rename
    happened all the same, the next start deals with it.
    """
    place = place_of(current)
    path = posixpath.join(destination.path, str(place))
    future.disk.rename(future.directory, path)
    future.disk.sync_directory(destination.path)
    future.relocated(path)
    future.producers.take_over(current.producers)
    future.bounds.took_place_of(current.bounds)
    future.update_config(current.config)
    destination.adopt(place)


def still_future(future: Log) -> bool:
    """True if the future log's folder still has its future name: `move_in` has not renamed it."""
    return future.disk.exists(future.directory)


def move_out(current: Log, source: LogDirectory) -> None:
    """Take out the log that was served, to be deleted; nothing is written to it any more."""
    place = place_of(current)
    current.stop_writing()
    source.logs.pop(place, None)
    path = current.directory
    current.close(clean=False)
    source.set_aside(path, place, current.topic_id)


def unmark(served: Log) -> None:
    """Remove the mark of a move: this log is the replica, whatever copy the other directory shows later."""
    path = posixpath.join(served.directory, MOVING)
    if served.disk.exists(path):
        served.disk.remove(path)
        served.disk.sync_directory(served.directory)


def abandon(future: Log, destination: LogDirectory) -> None:
    """Delete a future log that is not wanted any more."""
    place = place_of(future)
    destination.futures.pop(place, None)
    path = future.directory
    future.close(clean=False)
    destination.set_aside(path, place, future.topic_id)


def is_newer(one: Log, other: Log) -> bool:
    """True if the first of two logs that were alike has served since, and the second has not.

    The served log goes on in a later epoch or further in the same one; elections of leaders compare logs in the same
    way (KIP-595). A log that was emptied and began again behind the other's end is newer, whatever its epochs.
    """
    if one.log_start_offset > other.end_offset:
        return True
    if other.log_start_offset > one.end_offset:
        return False
    return (one.latest_epoch, one.end_offset) > (other.latest_epoch, other.end_offset)


def _put_snapshot(future: Log, of: Log | None = None) -> None:
    put_snapshot(future.disk, future.directory, future.end_offset, (of or future).producers)


def _nobody(offset: int) -> None:
    """Do nothing: no request waits for the sync of a future log."""
