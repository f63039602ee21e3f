"""Safeguards and how each is taken out: one edit of a copy of the source, and where it is caught."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One safeguard removed. `old` occurs exactly once in the file."""

    safeguard: str
    file: str
    old: str
    new: str
    seeds: tuple[int, int]
    """From the first on, so many: all are green without the mutation."""
    caught_as: tuple[str, ...]
    """Kinds of anomaly, one of which must be among those found: a promise broken, and not merely a crash."""


_LOST = ("lost-write", "lost-read", "watermark-went-back", "vanished", "inconsistent-offset", "moved")

MUTANTS = (
    Mutant(
        "answer only after the sync",
        "broker/partition.py",
        "if self.config.write_caching:",
        "if True:",
        (0, 10),
        _LOST,
    ),
    Mutant(
        "a sync covers what was there when it began",
        "storage/syncing.py",
        "under_way = self._under_way.popleft()",
        "under_way = self._under_way.popleft(); under_way.end = log.end_offset",
        (0, 10),
        _LOST,
    ),
    Mutant(
        "a failed sync fails the directory",
        "storage/syncing.py",
        "if error is not None:",
        "if error is not None and False:",
        (0, 10),
        _LOST,
    ),
    Mutant(
        "a roll syncs the directory's names",
        "storage/syncing.py",
        "directories = (log.directory,) if self._dirty_directory else ()",
        "directories = ()",
        (0, 10),
        _LOST,
    ),
    Mutant(
        "CRC on recovery",
        "storage/recovery.py",
        "if view is not None and crc32c(view[CRC_START:]) != header.crc:",
        "if False:",
        (0, 20),
        ("unreadable", "phantom", *_LOST),
    ),
    Mutant(
        "recovery syncs what it kept",
        "storage/recovery.py",
        "for file in [segment.file, *segment.write_indexes()]:",
        "for file in segment.write_indexes():",
        (0, 20),
        _LOST,
    ),
    Mutant(
        "retried batches are recognized",
        "storage/producers.py",
        "if mark[0] == last_sequence and mark.first_sequence == base_sequence:",
        "if False:",
        (0, 10),
        ("failed",),
    ),
    Mutant(
        "producer state is replayed after a crash",
        "storage/recovery.py",
        "if header.producer_id >= 0 and header.last_offset >= start and header.next_offset <= log.end_offset:",
        "if False:",
        (0, 20),
        ("duplicate",),
    ),
    Mutant(
        "readers stop at the high watermark",
        "broker/handlers/fetch.py",
        "limit = stable if committed else high_watermark",
        "limit = log.end_offset",
        (0, 10),
        ("lost-read", "inconsistent-offset", "vanished", "duplicate"),
    ),
    Mutant(
        "DeleteRecords is on disk before it is answered",
        "broker/handlers/delete_records.py",
        "        call.node.log_start_moved()\n",
        "",
        (0, 20),
        ("deletion-undone", "start-went-back"),
    ),
    Mutant(
        "a coordinator holds its answers",
        "broker/shard_runner.py",
        "if not self._held and self._partition.log.high_watermark >= self._through:",
        "if True:",
        (0, 20),
        ("lost-commit",),
    ),
)
