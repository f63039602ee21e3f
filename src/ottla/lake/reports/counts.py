"""Counts that must add up, as a person reads them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.lake.notes.plans import Commit, Publication, RangeCount, totals

_OFFSETS = ("topic", "partition", "offsets")
_FATES = ("records", "in files", "filtered", "dead", "aborted", "markers", "absent", "in lake")


def audit_lines(counts: Iterable[RangeCount], committed: Commit) -> list[str]:
    """A row per partition of this run and a verdict.

    Every offset is a record, a transaction marker, or absent (compacted away); every record is in a file, left out by
    the filter, among the dead letters, or aborted. Records are counted from batch headers, rows from finished files.
    """
    whole = totals(counts)
    rows: list[Sequence[str]] = [(*_OFFSETS, *_FATES)]
    for partition, count in sorted(whole.items()):
        numbers = (
            count.records,
            count.rows,
            count.filtered,
            count.dead,
            count.aborted,
            count.markers,
            count.absent,
            committed.rows.get(partition, 0),
        )
        offsets = f"{count.span.start}-{count.span.end}"
        rows.append((partition.topic, str(partition.partition), offsets, *(f"{number:,}" for number in numbers)))
    return [*aligned(rows), verdict(list(whole.values()))]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def verdict(counts: Sequence[RangeCount]) -> str:
    """One sentence, beginning with `audit:`."""
    records = sum(count.records for count in counts)
    files = sum(count.rows for count in counts)
    dead = sum(count.dead for count in counts)
    aborted = sum(count.aborted for count in counts)
    wrong = [str(count.span.topic_partition) for count in counts if not count.adds_up]
    filtered = sum(count.filtered for count in counts)
    left_out = f"{filtered:,} filtered + " if filtered else ""
    fates = f"{files:,} in files + {left_out}{_many(dead, 'dead letter')} + {aborted:,} aborted"
    sum_text = f"{_many(records, 'record')} = {fates}"
    return f"audit: {sum_text}: " + (f"DOES NOT ADD UP in {', '.join(wrong)}" if wrong else "adds up")


def progress_line(publication: Publication, seconds: float, behind: int) -> str:
    """One round, as it is reported on stderr. `behind` counts the offsets that wait for the next rounds."""
    rows = sum(file.written.rows for file in publication.files)
    size = sum(file.written.bytes for file in publication.files)
    dead = sum(count.dead for count in publication.counts)
    filtered = sum(count.filtered for count in publication.counts)
    speed = (rows + dead + filtered) / seconds if seconds > 0 else 0.0
    letters = (f", {filtered:,} filtered" if filtered else "") + (f", {_many(dead, 'dead letter')}" if dead else "")
    return (
        f"round {publication.plan.number}: {_many(rows, 'record')} into {_many(len(publication.files), 'file')} "
        f"({size_text(size)}){letters} in {seconds:.1f} s, {speed:,.{0 if speed >= 10 else 1}f}/s; "
        + (f"{_many(behind, 'offset')} behind" if behind else "nothing is left")
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def size_text(size: int) -> str:
    """`2.3 MiB`."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return _many(size, "byte")
