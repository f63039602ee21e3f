"""A cut into the middle of a batch looks at that batch, not at the whole segment."""

from __future__ import annotations

import pytest
from log_desk import a_batch, a_log, put, sync, values_of

from ottla.records.header import HEADER_SIZE
from ottla.sim.disk import SimDisk, SimFile
from ottla.storage.log import Log

BATCHES = 400


def a_long_segment(disk: SimDisk) -> Log:
    """Batches of three records in one segment with an index entry every twenty or so."""
    log = a_log(disk, index_interval_bytes=4096)
    for at in range(BATCHES):
        put(log, a_batch(*(b"%d" % at * 20 for _ in range(3))))
    sync(log)
    return log


def harm(log: Log, position: int) -> None:
    byte = log.active.file.read_at(position, 1)[0]
    log.active.file.write_at(position, [bytes([byte ^ 1])])


def position_of(log: Log, offset: int) -> int:
    found = log.active.find(offset)
    assert found is not None and found.base_offset == offset
    return found.position


def bytes_read_by_a_cut(monkeypatch: pytest.MonkeyPatch, log: Log, offset: int) -> int:
    read, read_at = [], SimFile.read_at

    def counted(file: SimFile, position: int, length: int) -> bytes:
        body = read_at(file, position, length)
        read.append(len(body))
        return body

    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "read_at", counted)
        log.truncate_to(offset)
    return sum(read)


def test_a_cut_into_a_batch_reads_hardly_more_than_one_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    between, into = a_long_segment(SimDisk()), a_long_segment(SimDisk())
    size, edge = into.active.size, 3 * BATCHES - 6
    usual = bytes_read_by_a_cut(monkeypatch, between, edge)
    assert bytes_read_by_a_cut(monkeypatch, into, edge + 2) < usual + size // 4
    assert into.end_offset == between.end_offset == edge and into.damaged_at is None
    assert values_of(into) == values_of(between)


def test_a_damaged_batch_is_not_taken_for_the_one_that_a_cut_leads_into() -> None:
    """Its header claims to hold the offset, and later offsets are committed."""
    log = a_long_segment(SimDisk())
    end = 3 * BATCHES
    position = position_of(log, end - 12)
    last_delta = position + 23
    assert log.active.file.read_at(last_delta, 4) == (2).to_bytes(4, "big")
    log.active.file.write_at(last_delta, [(9).to_bytes(4, "big")])
    log.truncate_to(end - 4)
    assert log.damaged_at == end - 4 and log.end_offset == end


def test_a_cut_into_a_batch_whose_records_are_damaged_stops_the_log() -> None:
    log = a_long_segment(SimDisk())
    end = 3 * BATCHES
    harm(log, position_of(log, end - 6) + HEADER_SIZE + 5)
    log.truncate_to(end - 4)
    assert log.damaged_at == end - 4 and log.end_offset == end


@pytest.mark.parametrize("cut", [2, 3])
def test_a_cut_into_the_batch_in_which_a_log_starts_leaves_the_start_where_it_is(cut: int) -> None:
    log = a_log(SimDisk())
    put(log, a_batch(b"0"))
    put(log, a_batch(b"1", b"2", b"3"))
    sync(log)
    log.set_high_watermark(2)
    log.delete_records_before(2)
    log.truncate_to(cut)
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (2, 2, 2)
    assert put(log, a_batch(b"2")).base_offset == 2
