"""The place of an Iceberg table: catalogs are opened once, and each commit makes the metadata of its updates once."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from pathlib import Path

import pyiceberg.table
import pytest
from tests.lake.tables.made import Lake, a_round, ten_rows

from ottla.lake.tables import iceberg_place
from ottla.lake.tables.iceberg_place import CatalogPlace


@pytest.fixture
def format() -> str:
    return "iceberg"


def test_tables_of_a_load_share_a_catalog(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    opened = []
    load = iceberg_place.load_catalog
    monkeypatch.setattr(iceberg_place, "load_catalog", lambda name, **to: opened.append(to) or load(name, **to))
    tables = [lake.table(topic) for topic in ("orders", "returns")]
    for table in tables:
        table.commit(a_round(1, [ten_rows(lake, 1, topic=table.topic)], topic=table.topic))
        assert table.standing("L").number == 1
    assert len(opened) == 1


def test_a_catalog_goes_with_its_last_table(lake: Lake):
    first, second = (CatalogPlace(lake.url, topic, lake.catalog, "ottla") for topic in ("orders", "returns"))
    held = weakref.ref(first.catalog())
    assert second.catalog() is held()
    del first
    gc.collect()
    assert held() is second.catalog()
    del second
    gc.collect()
    assert held() is None


def test_a_catalog_file_that_was_put_in_the_place_of_another_counts(lake: Lake, tmp_path: Path):
    table = lake.table()
    table.commit(a_round(1, [ten_rows(lake, 1)]))
    shutil.copy(tmp_path / "catalog.db", tmp_path / "earlier.db")
    table.commit(a_round(2, [ten_rows(lake, 2)]))
    assert table.standing("L").number == 2
    os.replace(tmp_path / "earlier.db", tmp_path / "catalog.db")
    assert table.standing("L").number == 1


def test_a_commit_makes_the_metadata_of_its_updates_once(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    made = []
    update = pyiceberg.table.update_table_metadata
    table = lake.table()
    table.commit(a_round(1, [ten_rows(lake, 1)]))
    monkeypatch.setattr(pyiceberg.table, "update_table_metadata", lambda *of: made.append(of[1]) or update(*of))
    table.commit(a_round(2, [ten_rows(lake, 2)]))
    assert made, "the library asks elsewhere now"
    assert len(made) == len({len(updates) for updates in made})
