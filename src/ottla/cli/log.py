"""`ottla log`: prints the files of a log directory, checks them, and has an older store accepted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import Command, counted, noun, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option

if TYPE_CHECKING:
    from ottla.storage.directory.strays import Stray
    from ottla.storage.segment.closed import ClosedSegment

_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_DANGLING = (
    "mount the disk that it leads to, or put the file back there, and check again: a start takes it for a missing file"
)
_NAMES = ("leader-epoch-checkpoint", "partition.metadata", "meta.properties")


def command(arguments: Sequence[str]) -> int:
    return noun("log", VERBS, arguments)


def _dump(given: Given) -> int:
    from ottla.cli.kafka.dump_log import dump

    return dump(
        [path for word in given.words for path in _files(word)],
        print_data="data" in given,
        deep="records" in given or "data" in given,
        offsets="offsets" in given,
    )


def _files(path: str) -> list[str]:
    """The file, or every file of the logs in a directory, at any depth."""
    if not os.path.exists(path):
        raise Misuse(f"there is no file or directory {path}")
    if not os.path.isdir(path):
        return [path]
    return [
        os.path.join(directory, name)
        for directory, _, names in sorted(os.walk(path))
        for name in sorted(names)
        if name.endswith((*_SUFFIXES, "-checkpoint")) or name in _NAMES
    ]


def _check(given: Given) -> int:
    """Print all damage below the given paths with remedies; 1 if there is any."""
    as_json = wants_json(given)
    findings: list[tuple[str, str]] = []

    def tell(text: str, remedy: str) -> None:
        findings.append((text, remedy))
        if not as_json:
            print(text + (f"\n    {remedy}" if remedy else ""))

    notes = [one for word in given.words for one in _said_of(word)]
    for text, remedy in notes:
        tell(text, remedy)
    paths = [path for word in given.words for path in _files(word)]
    damaged = count = size = 0
    for path in paths:
        if os.path.islink(path) and not os.path.exists(path):
            damaged += 1
            tell(f"{path} is a link to {os.readlink(path)}, and no file is there", _DANGLING)
    for segment, is_last in _segments(paths):
        count, size = count + 1, size + segment.size
        for text, remedy in _faults(segment, is_last=is_last):
            damaged += bool(remedy)
            tell(text, remedy)
    found = [counted(damaged, "damaged place")] if damaged else []
    found += [f"a start would say the {counted(len(notes), 'thing')} above"] if notes else []
    if as_json:
        told = [{"finding": text, "remedy": remedy or None} for text, remedy in findings]
        print_json({"segments": count, "bytes": size, "damaged": damaged, "findings": told})
    else:
        print(f"{counted(count, 'segment')}, {counted(size, 'byte')}: " + (", ".join(found) or "no damage"))
    return 1 if found else 0


def _faults(segment: ClosedSegment, *, is_last: bool) -> Iterator[tuple[str, str]]:
    """Check batches by their CRCs, and the indexes of a segment that is not written any more; each finding with a
    remedy. A torn end is no fault and needs no remedy."""
    from ottla.storage.directory.rehearsal import MENDED, REFUSED
    from ottla.storage.disk.overlay import OverlayDisk
    from ottla.storage.maintenance.index_scrub import IndexCheck
    from ottla.storage.segment.closed import check
    from ottla.storage.segment.walk import Extent

    disk = OverlayDisk()  # which opens files that may only be read
    index = IndexCheck(disk, segment.path, segment.base_offset, segment.index_interval, segment.aborted)
    try:
        extents = [step for step in check(disk, segment, index.saw) if isinstance(step, Extent)]
    except OSError as error:
        yield f"{segment.path}: it cannot be read ({error.strerror}): offsets from {segment.base_offset} on", REFUSED
        return
    for one in extents:
        if is_last and one is extents[-1] and one.end == segment.size:
            yield f"{segment.path}: no whole batch at byte {one.position}: a start after a crash cuts it there", ""
            continue
        where = f"{segment.path}: damaged from byte {one.position} to {one.end}"
        yield f"{where}: offsets {one.first_offset} to {one.next_offset - 1}", REFUSED
    wrong = "" if extents or is_last else index.ended()
    if wrong:
        yield f"{segment.path}: its indexes are not this segment's: {wrong}", MENDED


def _said_of(path: str) -> Iterator[tuple[str, str]]:
    """Findings of a start about the log directories at or below a path, each with advice."""
    from ottla.storage.directory.rehearsal import is_log_directory

    faults: list[OSError] = []
    found = []
    for directory, folders, names in os.walk(path, onerror=faults.append) if os.path.isdir(path) else ():
        if is_log_directory([*folders, *names]):
            found.append(os.path.abspath(directory))
    for each in sorted(found):
        yield from _rehearsed(each)
    for fault in faults:
        if os.path.dirname(os.path.abspath(fault.filename)) not in found:  # else it counts as a partition's folder
            yield (
                f"the directory {fault.filename} cannot be read: {fault.strerror}",
                "give it to the user that reads it",
            )


def _rehearsed(path: str) -> Iterator[tuple[str, str]]:
    """Findings of a start about one log directory, each with advice."""
    import time

    from ottla.storage.directory.ownership import LOCK, UnusableFile, opened_lock
    from ottla.storage.directory.rehearsal import rehearse
    from ottla.storage.disk.local import LocalDisk

    where = os.path.join(path, LOCK)
    if os.path.exists(where):
        try:
            held = opened_lock(LocalDisk().lock, where)
        except UnusableFile as fault:
            yield f"a start would refuse {path}: {fault}", ""
        else:
            if held is None:
                sys.stderr.write(
                    f"{path} is in use: its broker says what it finds, and only segments are checked here\n"
                )
                return
            held.release()
    yield from rehearse(path, wall_ms=time.time_ns() // 1_000_000)


def _accept_store(given: Given) -> int:
    """Have stopped brokers' log directories take the metadata store as it is; 1 where one is in use."""
    from ottla.storage.directory.incarnation import read_incarnation, write_incarnation
    from ottla.storage.directory.ownership import LOCK
    from ottla.storage.disk.local import LocalDisk

    disk, accepted = LocalDisk(), {}
    for path in given.words:
        found = read_incarnation(disk, path).incarnation
        if found is None:
            raise Misuse(f"{path} is not a log directory with an incarnation: there is nothing to accept")
        held = disk.lock(os.path.join(path, LOCK))
        accepted[path] = held is not None
        if held is not None:
            write_incarnation(disk, path, found._replace(accepts_store=True))
            held.release()
        if not wants_json(given):
            takes = "takes the metadata store as it is at its next start"
            print(f"{path} " + (takes if accepted[path] else "is in use: stop its broker first"))
    if wants_json(given):
        print_json([{"directory": path, "accepted": taken} for path, taken in accepted.items()])
    return 0 if all(accepted.values()) else 1


def _segments(paths: list[str]) -> Iterator[tuple[ClosedSegment, bool]]:
    """The files, each with its end, and whether it is the last of its log, which may be being written."""
    from ottla.storage.disk.overlay import OverlayDisk
    from ottla.storage.leader_epochs import LeaderEpochs
    from ottla.storage.producers.aborted_note import read_note
    from ottla.storage.segment.closed import ClosedSegment
    from ottla.storage.segment.names import base_offset_of

    disk = OverlayDisk()
    for path in paths:
        base = base_offset_of(os.path.basename(path))
        if base is None or not os.path.exists(path):  # deleted meanwhile, or a link that leads nowhere
            continue
        folder = os.path.dirname(path)
        epochs, note = LeaderEpochs(disk, folder), read_note(disk, folder)
        epochs.load()
        beside = (base_offset_of(name) for name in os.listdir(folder or "."))
        later = [other for other in beside if other is not None and other > base]
        end = min(later, default=(1 << 63) - 1)
        told = ClosedSegment(path, base, end, os.path.getsize(path), epochs.between(base, end))
        is_noted = note is not None and note.end_offset >= end
        yield told._replace(aborted=note.seal(base)) if note is not None and is_noted else told, not later


def _strays(given: Given) -> int:
    """The strays in log directories, or the paths themselves if they are strays."""
    from ottla.storage.directory.strays import described, remove, strays
    from ottla.storage.disk.local import LocalDisk

    disk, found = LocalDisk(), []
    for word in given.words:
        path = os.path.abspath(word)
        if not os.path.exists(path):
            raise Misuse(f"there is no file or directory {word}")
        is_one = path.endswith(("-stray", ".aside"))
        found += [described(disk, path)] if is_one else list(strays(disk, path))
    if "remove" in given:
        for one in found:
            remove(disk, one)
            if not wants_json(given):
                print(f"removed {one.path}: {one.size_bytes} bytes")
        if not wants_json(given):
            return 0
    if wants_json(given):
        print_json([one._asdict() for one in found])
        return 0
    if not found:
        sys.stderr.write("nothing is set aside there\n")
        return 0
    titles = ["PATH", "TOPIC", "PARTITION", "TOPIC ID", "BYTES", "OFFSETS", "SINCE", "REASON"]
    print_table(titles, [_stray_row(one) for one in found])
    return 0


def _stray_row(one: Stray) -> list[object]:
    from datetime import UTC, datetime

    since = None if one.since_ms is None else datetime.fromtimestamp(one.since_ms // 1000, UTC).isoformat()
    offsets = None if one.start_offset < 0 else f"{one.start_offset}..{one.end_offset}"
    partition = None if one.partition < 0 else one.partition
    return [one.path, one.topic or None, partition, one.topic_id or None, one.size_bytes, offsets, since, one.reason]


VERBS = {
    "accept-store": Command(
        "ottla log accept-store DIRECTORY...",
        "Have log directories take a metadata store that is older than they are; see docs/guide/operations.md first.",
        _accept_store,
        words=(1, 1000),
        connects=False,
    ),
    "check": Command(
        "ottla log check FILE|DIRECTORY...",
        "Check every batch of segments by its CRC, and log directories of stopped brokers as a start would, without "
        "changing them; exit code 1 where anything is damaged.",
        _check,
        words=(1, 1000),
        connects=False,
    ),
    "strays": Command(
        "ottla log strays LOG-DIRECTORY|STRAY... [--remove]",
        "List what starts have set aside, or remove it for good.",
        _strays,
        [Option("remove", "Delete all that is named: log directories stand for all strays in them.")],
        words=(1, 1000),
        connects=False,
    ),
    "dump": Command(
        "ottla log dump FILE|DIRECTORY... [--records] [--data]",
        "Print segments, indexes, checkpoints and producer snapshots.",
        _dump,
        [
            Option("records", "Also the records of each batch."),
            Option("data", "Also their keys and values."),
            Option("offsets", "Decode records of __consumer_offsets."),
        ],
        words=(1, 1000),
        connects=False,
        has_json=False,
    ),
}
