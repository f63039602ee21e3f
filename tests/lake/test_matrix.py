"""Each type of a schema comes out of each format through each reader that the guide names as the value that went in."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lake.in_process import Load
from tests.lake.matrix_cases import ABSENT, CASES, Case
from tests.lake.matrix_readers import FORMATS, READERS, as_held, columns_of, seen


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_value_of_each_type_comes_out_of_each_format_through_each_reader(
    case: Case, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    load = Load(monkeypatch, tmp_path, format, values=case.values, schema=case.schema)
    load.round(case.payloads)
    load.round(case.payloads[:1])
    for name, read in READERS[format](load).items():
        table = read()
        assert table.num_rows == len(case.payloads) + 1, name
        if case.seen is ABSENT:
            assert "v" not in table.column_names, name
            continue
        expected = seen(as_held([*case.seen, case.seen[0]], format))
        assert columns_of(table) == expected, name
