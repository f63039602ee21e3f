"""Loaders race or are killed: every round is in the table once."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from tests.lake.tables.committer import keyed_rows
from tests.lake.tables.made import Lake, a_round, rows_of, ten_rows

ROOT = Path(__file__).parents[3]
KILLS = 8
"""Kills of one loader; `make lake-campaign` runs many more."""


@contextmanager
def started(lake: Lake, work: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A committing process; killed at the end if it still runs."""
    command = [sys.executable, "-m", "tests.lake.tables.committer", work, lake.url, lake.format, lake.catalog]
    process = subprocess.Popen([*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def raced(lake: Lake, loaders: list[str], gate: Path, before: list[subprocess.Popen[str]], *more: str) -> list[str]:
    """Start a process per loader, open the gate, and return their outputs: True if it made its round visible."""
    if not loaders:
        for process in before:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        gate.touch()
        return [process.stdout.readline().strip() for process in before if process.stdout is not None]
    with started(lake, "race", loaders[0], "1", str(gate), *more) as process:
        return raced(lake, loaders[1:], gate, [*before, process], *more)


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


def killed_until_done(lake: Lake, work: str) -> int:
    """Repeat the work until `KILLS` kills at random moments met it alive; return its last round."""
    chance, met, last = random.Random(7), 0, 0
    while met < KILLS:
        last += 8
        with started(lake, work, str(last)) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 4)):
                process.stdout.readline()
            try:
                process.wait(chance.uniform(0, 0.05))
            except subprocess.TimeoutExpired:
                met += 1
    with started(lake, work, str(last)) as process:
        assert process.wait(300) == 0
    return last


@pytest.mark.slow
def test_kills_beside_a_compaction_neither_lose_nor_double_a_row(lake: Lake):
    with started(lake, "compact"):
        last = killed_until_done(lake, "rounds")
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
def test_kills_of_a_keyed_loader_beside_a_compaction_leave_the_last_rows(lake: Lake):
    with started(lake, "compact"):
        last = killed_until_done(lake, "keyed")
    assert sorted(lake.frame().select("id", "offset").rows()) == keyed_rows(last)
