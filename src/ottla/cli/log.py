"""`ottla log`: the files of a log directory in words, whether they are as written, and an older store accepted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.cli.own import Command, noun, print_json, print_table, wants_json

if TYPE_CHECKING:
    from ottla.storage.directory.strays import Stray
    from ottla.storage.maintenance.scrub import ClosedSegment

_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
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
    """The file, or every file of a log that a directory holds, at any depth."""
    if not os.path.exists(path):
        raise Misuse(f"there is no {path}")
    if not os.path.isdir(path):
        return [path]
    return [
        os.path.join(directory, name)
        for directory, _, names in sorted(os.walk(path))
        for name in sorted(names)
        if name.endswith((*_SUFFIXES, "-checkpoint")) or name in _NAMES
    ]


def _check(given: Given) -> int:
    """Every segment below the paths given, by its CRCs; 1 where one is damaged."""
    from ottla.storage.disk.local import LocalDisk
    from ottla.storage.maintenance.index_scrub import IndexCheck
    from ottla.storage.maintenance.scrub import check
    from ottla.storage.segment.walk import Extent

    disk = LocalDisk()
    damaged = count = size = 0
    for segment, is_last in _segments([path for word in given.words for path in _files(word)]):
        count, size = count + 1, size + segment.size
        index = IndexCheck(disk, segment.path, segment.base_offset, segment.index_interval)
        extents = [step for step in check(disk, segment, index) if isinstance(step, Extent)]
        for one in extents:
            if is_last and one is extents[-1] and one.end == segment.size:
                print(f"{segment.path}: no whole batch at byte {one.position}: a start after a crash cuts it there")
                continue
            damaged += 1
            print(f"{segment.path}: damaged from byte {one.position} to {one.end}: offsets {one.first_offset} to "
                  f"{one.next_offset - 1}")  # fmt: skip
        wrong = "" if extents or is_last else index.ended()
        if wrong:
            damaged += 1
            print(f"{segment.path}: its indexes are not this segment's: {wrong}")
    print(f"{count} segments, {size} bytes: " + (f"{damaged} damaged places" if damaged else "no damage"))
    return 1 if damaged else 0


def _accept_store(given: Given) -> int:
    """Have stopped brokers' log directories take the metadata store as it is; 1 where one is in use."""
    from ottla.storage.directory.incarnation import read_incarnation, write_incarnation
    from ottla.storage.directory.ownership import LOCK
    from ottla.storage.disk.local import LocalDisk

    disk, refused = LocalDisk(), 0
    for path in given.words:
        found = read_incarnation(disk, path).incarnation
        if found is None:
            raise Misuse(f"{path} is no log directory with an incarnation: there is nothing to accept")
        held = disk.lock(os.path.join(path, LOCK))
        if held is None:
            refused = 1
            print(f"{path} is in use: stop its broker first")
            continue
        write_incarnation(disk, path, found._replace(accepts_store=True))
        held.release()
        print(f"{path} takes the metadata store as it is at its next start")
    return refused


def _segments(paths: list[str]) -> Iterator[tuple[ClosedSegment, bool]]:
    """With where each ends, and whether it is the last of its log, which may be being written."""
    from ottla.storage.maintenance.scrub import ClosedSegment
    from ottla.storage.segment.segment import base_offset_of

    for path in paths:
        base = base_offset_of(os.path.basename(path))
        if base is None:
            continue
        beside = (base_offset_of(name) for name in os.listdir(os.path.dirname(path) or "."))
        later = [other for other in beside if other is not None and other > base]
        end = min(later, default=(1 << 63) - 1)
        yield ClosedSegment(path, base, end, os.path.getsize(path)), not later


def _strays(given: Given) -> int:
    """Strays: all of them in log directories, or those that are named themselves."""
    from ottla.storage.directory.strays import described, remove, strays
    from ottla.storage.disk.local import LocalDisk

    disk, found = LocalDisk(), []
    for word in given.words:
        path = os.path.abspath(word)
        if not os.path.exists(path):
            raise Misuse(f"there is no {word}")
        is_one = path.endswith(("-stray", ".aside"))
        found += [described(disk, path)] if is_one else list(strays(disk, path))
    if "remove" in given:
        for one in found:
            remove(disk, one)
            print(f"removed {one.path}: {one.size_bytes} bytes")
        return 0
    if wants_json(given):
        print_json([one._asdict() for one in found])
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
    ),
    "check": Command(
        "ottla log check FILE|DIRECTORY...",
        "Check every batch of segments by its CRC; exit code 1 where one is damaged.",
        _check,
        words=(1, 1000),
    ),
    "strays": Command(
        "ottla log strays LOG-DIRECTORY|STRAY... [--remove]",
        "List what starts have set aside, or remove it for good.",
        _strays,
        [Option("remove", "Delete all that is named: log directories stand for all strays in them.")],
        words=(1, 1000),
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
    ),
}
