"""Loaders race or are killed: every round is in the table once."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple, TextIO

import duckdb
import pytest
from tests.lake.tables import committer
from tests.lake.tables.committer import keyed_rows
from tests.lake.tables.made import Lake, a_round, rows_of, ten_rows

FORKS = multiprocessing.get_context("forkserver")
"""Makes processes out of one that has imported all that a commit imports, which takes far longer than the commit."""
FORKS.set_forkserver_preload(
    [
        committer.__name__,
        "deltalake",
        "ottla.lake.tables.delta",
        "ottla.lake.tables.iceberg",
        "ottla.lake.tables.iceberg_io",
        "pyiceberg.catalog.sql",
        "pyiceberg.io.pyarrow",
        "sqlalchemy.dialects.sqlite",
        "sqlite3",
    ]
)
KILLS, KILLS_AT_LENGTH = 4, 16
"""Kills of one loader, by default and with --long; `make lake-campaign` runs many more."""


class Committing(NamedTuple):
    """A committing process, and the lines that it writes."""

    process: BaseProcess
    lines: TextIO


@contextmanager
def started(lake: Lake, work: str, *arguments: str) -> Iterator[Committing]:
    """A committing process; killed at the end if it still runs."""
    reader, writer = FORKS.Pipe(duplex=False)
    words = [work, lake.url, lake.format, lake.catalog, *arguments]
    process = FORKS.Process(target=committer.main, args=(words, dict(os.environ), writer))
    process.start()
    writer.close()
    try:
        with reader, open(reader.fileno(), encoding="utf-8", closefd=False) as lines:
            yield Committing(process, lines)
    finally:
        process.kill()
        process.join()


def raced(lake: Lake, loaders: list[str], gate: Path, before: list[Committing], *more: str) -> list[str]:
    """Start a process per loader, open the gate, and return their outputs: True if it made its round visible."""
    if not loaders:
        for each in before:
            assert each.lines.readline() == "ready\n"
        gate.touch()
        return [each.lines.readline().strip() for each in before]
    with started(lake, "race", loaders[0], "1", str(gate), *more) as one:
        return raced(lake, loaders[1:], gate, [*before, one], *more)


def test_of_four_committers_of_one_round_one_makes_it_visible(any_lake: Lake, tmp_path: Path):
    said = raced(any_lake, ["L"] * 4, tmp_path / "gate", [])
    assert sorted(said) == ["False"] * 3 + ["True"]
    assert any_lake.offsets() == [(0, 1000)]


def test_racing_loaders_all_commit(any_lake: Lake, tmp_path: Path):
    loaders = [f"L{number}" for number in range(4)]
    assert raced(any_lake, loaders, tmp_path / "gate", []) == ["True"] * 4
    assert any_lake.offsets() == [(0, 1000)] * 4
    assert [held.loader for held in any_lake.table().standings()] == loaders


def test_of_four_committers_of_one_keyed_round_one_makes_it_visible(lake: Lake, tmp_path: Path):
    said = raced(lake, ["L"] * 4, tmp_path / "gate", [], "keyed")
    assert sorted(said) == ["False"] * 3 + ["True"]
    assert sorted(lake.frame().select("id", "offset").rows()) == keyed_rows(1)


def test_racing_loaders_widen_a_column_once_and_keep_every_row(lake: Lake, tmp_path: Path):
    lake.table().commit(a_round(1, [ten_rows(lake, 1)], loader="before"))
    loaders = [f"L{number}" for number in range(4)]
    assert raced(lake, loaders, tmp_path / "gate", [], "wide") == ["True"] * 4
    assert sorted(lake.frame()["id"].to_list()) == sorted([*map(float, range(10)), *[0.5] * 4])


@pytest.fixture(scope="session")
def kills(at_length: bool) -> int:
    return KILLS_AT_LENGTH if at_length else KILLS


def killed_until_done(lake: Lake, work: str, kills: int) -> int:
    """Repeat the work until so many kills at random moments met it alive; return its last round."""
    chance, met, last = random.Random(7), 0, 0
    while met < kills:
        last += 4
        with started(lake, work, str(last)) as (process, lines):
            for _ in range(chance.randrange(1, 4)):
                lines.readline()
            process.join(chance.uniform(0, 0.05))
            met += process.exitcode is None
    with started(lake, work, str(last)) as (process, _):
        process.join(300)
        assert process.exitcode == 0
    return last


@pytest.mark.slow
def test_kills_beside_a_compaction_neither_lose_nor_double_a_row(lake: Lake, kills: int):
    with started(lake, "compact"):
        last = killed_until_done(lake, "rounds", kills)
    assert lake.offsets() == rows_of(last)
    if lake.format == "delta":
        from deltalake import DeltaTable

        seen = DeltaTable(f"{lake.url}/orders").to_pyarrow_dataset()
    else:
        seen = lake.iceberg().scan().to_arrow()
    query = 'select count(*), count(distinct "offset"), max("offset") from seen'
    assert duckdb.sql(query).fetchall() == [(last * 10, last * 10, last * 10 - 1)]
    assert seen is not None


@pytest.mark.slow
def test_kills_of_a_keyed_loader_beside_a_compaction_leave_the_last_rows(lake: Lake, kills: int):
    with started(lake, "compact"):
        last = killed_until_done(lake, "keyed", kills)
    assert sorted(lake.frame().select("id", "offset").rows()) == keyed_rows(last)
