"""The names of a segment's files, and the base offsets in them."""

from __future__ import annotations

from collections.abc import Iterable

LOG, INDEX, TIME_INDEX, ABORTED_INDEX = ".log", ".index", ".timeindex", ".txnindex"
DELETED, CLEANED, FETCHED, SWAP = ".deleted", ".cleaned", ".fetched", ".swap"
SUFFIXES = (LOG, INDEX, TIME_INDEX, ABORTED_INDEX)


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    name = f"{base_offset:020d}{suffix}"
    return f"{directory}/{name}" if directory else name


def base_offset_of(name: str, suffix: str = LOG) -> int | None:
    """The base offset in a file's name; None for other names."""
    digits = name[:20]
    return int(digits) if len(name) == 20 + len(suffix) and name.endswith(suffix) and digits.isdecimal() else None


def bases_in(names: Iterable[str]) -> list[int]:
    """Base offsets of the segments among the names in a log's folder, rising."""
    return sorted(
        base for name in names if name.endswith(LOG) and len(name) == 24 and (base := base_offset_of(name)) is not None
    )
