"""Lines come out whole however their bytes arrive, and rows that were read come before an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.cli.faults import BadInput
from ottla.cli.input.lines import CsvRows, InputRow, json_rows, line_blocks
from ottla.cli.produce_progress import progress_line


class Pieces:
    """A source of these pieces."""

    name = "there"

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def chunks(self) -> Iterator[bytes]:
        return iter(self._pieces)


CONTENT = b'a,b\r\n1,\xc3\xa9\r\n"x\r\ny",\r\n\r\nlast,2'


@pytest.mark.parametrize("at", range(len(CONTENT) + 1))
def test_lines_and_rows_do_not_depend_on_where_bytes_are_cut(at: int) -> None:
    pieces = [piece for piece in (CONTENT[:at], CONTENT[at:]) if piece]
    lines = [line for block in line_blocks(Pieces(*pieces)) for line in block]  # type: ignore[arg-type]
    assert lines == [b"a,b", "1,é".encode(), b'"x', b'y",', b"", b"last,2"]
    rows = [row for block in CsvRows(Pieces(*pieces), ",").blocks() for row in block]  # type: ignore[arg-type]
    assert [row.fields for row in rows] == [{"a": "1", "b": "é"}, {"a": "x\r\ny", "b": ""}, {"a": "last", "b": "2"}]
    assert [row.place for row in rows] == ["there, line 2", "there, line 4", "there, line 6"]


def test_rows_before_a_bad_one_come_before_the_error() -> None:
    seen: list[InputRow] = []
    with pytest.raises(BadInput, match="there, line 3 is not a JSON object"):
        for block in json_rows(Pieces(b'{"a":1}\n{"a":2}\n{\n{"a":3}\n'), envelopes=False):  # type: ignore[arg-type]
            seen += block
    assert [row.fields for row in seen] == [{"a": 1}, {"a": 2}]


def test_rows_are_given_on_as_soon_as_their_lines_are_there() -> None:
    blocks = CsvRows(Pieces(b"a\n1\n", b"2\n3\n", b"4"), ",").blocks()  # type: ignore[arg-type]
    assert [[row.fields["a"] for row in block] for block in blocks if block] == [["1"], ["2", "3"], ["4"]]


def test_progress_is_a_bar_where_the_size_is_known() -> None:
    assert progress_line(1_000, 50, 100, 2.0) == f"[{'#' * 15}{'.' * 15}]  50%  1,000 records, 500/s"
    assert progress_line(1_000, 50, 0, 2.0) == "1,000 records, 500/s"
