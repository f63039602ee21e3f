"""Files of a partition, read as a fetch would give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.backup import pieces
from ottla.backup.copying import FileWriter
from ottla.backup.manifest import PartitionCopy
from ottla.backup.pieces import PartitionFiles
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.reader import Record, read_run
from ottla.stores.local import LocalStore

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartitionFiles:
    """Batches of two records from offset 10 on, in two files, with a hole; one is of a torn transaction."""
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 100)  # one batch or two
    writer = FileWriter(LocalStore(tmp_path), PLACE, "run")
    for first in (10, 12, 14, 20, 22):
        records = [Record(0, 1, None, f"{first + at}".encode()) for at in range(2)]
        of = (
            {"producer_id": 7, "producer_epoch": 3, "base_sequence": 0, "is_transactional": True} if first == 14 else {}
        )
        writer.add(build_batch(records, base_offset=first, **of), first, first + 2)  # type: ignore[arg-type]
        if first == 14:
            writer.finish(20)
    writer.finish(30)
    return PartitionFiles(LocalStore(tmp_path), PLACE, PartitionCopy(11, 30, tuple(writer.files)), [(7, 3)])


def read(files: PartitionFiles, position: int) -> list[int]:
    """The values from an offset to the end."""
    found = []
    while position < files.copy.end:
        piece = files.piece(position)
        assert piece.offset == position and piece.next_offset > position
        found += [int(each.value or b"") for each in read_run(piece.records) if each.offset >= position]
        position = piece.next_offset
    return found


def test_pieces_go_through_all_files_without_torn_transactions_and_may_begin_anywhere(files: PartitionFiles) -> None:
    assert read(files, 11) == [11, 12, 13, 20, 21, 22, 23]
    for position, values in ((13, [13, 20, 21, 22, 23]), (16, [20, 21, 22, 23]), (21, [21, 22, 23]), (24, [])):
        assert read(files, position) == values
    files.piece(11)
    assert read(files, 12) == [12, 13, 20, 21, 22, 23]  # not where the piece before ended


def test_all_batches_are_those_of_the_pieces(files: PartitionFiles) -> None:
    assert [batch.base_offset for batch in files.all_batches()] == [10, 12, 20, 22]
