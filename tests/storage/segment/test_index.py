"""The index of a segment, while it is written and after it is sealed."""

from __future__ import annotations

import struct

import pytest

from ottla.kernel.errors import InvariantBroken
from ottla.sim.disk import SimDisk
from ottla.storage.segment.index import SparseIndex

ENTRY = struct.Struct(">ii")


def an_index(*entries: tuple[int, int]) -> SparseIndex:
    index = SparseIndex(SimDisk(), "/0.index", ENTRY)
    for entry in entries:
        index.add(*entry)
    return index


def test_an_index_is_not_sealed_while_entries_are_missing_in_its_file() -> None:
    """They would be lost, and lookups would begin at the wrong place."""
    with pytest.raises(InvariantBroken, match="0 of its 2 entries"):
        an_index((1, 10), (2, 20)).sealed()


def test_a_sealed_index_takes_no_entry() -> None:
    index = an_index()
    index.sealed()
    with pytest.raises(InvariantBroken, match="sealed"):
        index.add(1, 10)
