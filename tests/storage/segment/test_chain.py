"""Tests of the segments that a log has, and of those that are being removed."""

from __future__ import annotations

from log_desk import T0, config

from ottla.sim.disk import SimDisk
from ottla.storage.folder import LogFolder
from ottla.storage.segment.chain import SegmentChain


def a_chain(*bases: int) -> SegmentChain:
    chain = SegmentChain(LogFolder(SimDisk(), "/data/t-0"))
    chain.configure(config(index_interval_bytes=100, segment_index_bytes=120))
    chain.set([chain.made(base, T0) for base in bases])
    return chain


def test_the_last_segment_is_the_active_one() -> None:
    chain = a_chain(0, 10)
    chain.begin(chain.made(20, T0))
    assert chain.bases == [0, 10, 20]
    assert chain.active is chain.segments[-1] and chain.active.base_offset == 20


def test_an_offset_lies_in_the_segment_that_begins_at_or_before_it() -> None:
    chain = a_chain(5, 10, 20)
    assert [chain.at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 0, 0, 1, 2]
    assert [segment.base_offset for segment in chain.from_offset(12)] == [10, 20]
    assert [segment.base_offset for segment in chain.from_offset(0)] == [5, 10, 20]


def test_whoever_reads_on_goes_on_with_the_segments_of_before() -> None:
    chain = a_chain(0, 10, 20)
    before = chain.segments
    chain.take_out(1, T0)
    assert [segment.base_offset for segment in before] == [0, 10, 20]
    assert chain.bases == [10, 20]
    assert [(one.segment.base_offset, one.since_ms, one.renamed) for one in chain.doomed] == [(0, T0, False)]


def test_a_compacted_segment_takes_the_place_of_its_group() -> None:
    chain = a_chain(0, 10, 20, 30)
    compacted = chain.made(10, T0)
    old = chain.replace(1, 2, compacted)
    assert [segment.base_offset for segment in old] == [10, 20]
    assert chain.segments[1] is compacted and chain.bases == [0, 10, 30]


def test_what_a_start_dooms_stays_until_its_files_are_gone() -> None:
    chain = a_chain(10)
    chain.doom(chain.made(0, T0), T0, renamed=True)
    chain.doom(chain.made(5, T0), T0, renamed=False)
    assert [one.segment.base_offset for one in chain.doomed] == [0, 5]
    chain.still_doomed(chain.doomed[1:])
    assert [one.segment.base_offset for one in chain.doomed] == [5]


def test_new_limits_are_of_the_active_segment_and_those_to_come() -> None:
    chain = a_chain(0, 10)
    chain.configure(config(index_interval_bytes=7, segment_index_bytes=24))
    assert [segment.index_interval for segment in (*chain.segments, chain.made(20, T0))] == [100, 7, 7]
    assert [segment.max_entries for segment in (*chain.segments, chain.made(20, T0))] == [10, 2, 2]


def test_a_log_that_was_compacted_once_may_have_holes_for_ever() -> None:
    chain = a_chain(0)
    assert not chain.sparse
    chain.configure(config(cleanup_policy=("compact",)))
    chain.configure(config())
    assert chain.sparse


def test_a_chain_moves_with_its_folder() -> None:
    chain = a_chain(0)
    chain.folder.renamed("/other/t-0")
    chain.renamed()
    assert chain.segments[0].path(".log") == "/other/t-0/00000000000000000000.log"
    assert chain.made(10, T0).directory == "/other/t-0"
