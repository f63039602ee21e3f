"""Steps over whole records, and the conditions under which steps are done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.connect.java.regex import compiled
from ottla.formats.arrays import lists
from ottla.sinks.steps.rows import Mask, SteppedRows


class RecordCondition(Protocol):
    """A predicate over records."""

    def holds(self, rows: SteppedRows) -> Mask:
        """The records for which it holds."""


@dataclass(frozen=True, slots=True)
class HasHeader:
    """The record has a header of a name."""

    name: str

    def holds(self, rows: SteppedRows) -> Mask:
        """The records with such a header."""
        found = np.zeros(len(rows), dtype=np.bool_)
        found[_rows_of_headers(rows.headers)[_named(rows.headers, [self.name])]] = True
        return found


@dataclass(frozen=True, slots=True)
class IsTombstone:
    """The record has no value."""

    def holds(self, rows: SteppedRows) -> Mask:
        """The records without a value, as the steps before have left it."""
        return rows.missing


@dataclass(frozen=True, slots=True)
class TopicMatches:
    """The topic's name matches a pattern: the same answer for all records of a topic."""

    pattern: str

    def matches(self, topic: str) -> bool:
        """True if the whole name matches."""
        return compiled(self.pattern).fullmatch(topic) is not None

    def holds(self, rows: SteppedRows) -> Mask:
        """All records, or none."""
        return np.full(len(rows), self.matches(rows.topic), dtype=np.bool_)


class FilterStep:
    """Filters records out."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Filter has no options."""

    def apply(self, rows: SteppedRows, chosen: Mask) -> None:
        """Drop the chosen records."""
        rows.drop(chosen)


class DropHeadersStep:
    """Drops headers by their names."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._names = sorted(set(options["headers"]))

    def apply(self, rows: SteppedRows, chosen: Mask) -> None:
        """Drop the headers of the chosen records."""
        headers = rows.headers
        if headers.null_count == len(headers):
            return
        of_row = _rows_of_headers(headers)
        kept = ~(_named(headers, self._names) & chosen[of_row])
        if kept.all():
            return
        counts = np.bincount(of_row[kept], minlength=len(headers))
        edges = np.concatenate([[0], np.cumsum(counts)])
        entries = headers.flatten().filter(pa.array(kept))
        rows.headers = lists(headers.type, edges, entries, counts > 0)


def _rows_of_headers(headers: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The row of each header."""
    if headers.null_count == len(headers):
        return np.empty(0, dtype=np.int64)
    return np.asarray(pc.list_parent_indices(headers), dtype=np.int64)


def _named(headers: pa.Array, names: list[str]) -> Mask:
    """The headers that have one of these names."""
    if headers.null_count == len(headers):
        return np.empty(0, dtype=np.bool_)
    found = pc.is_in(headers.flatten().field(0), pa.array(names, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
