"""A commit whose answer is lost is made once, and the committer still learns that it was its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.lake.tables.made import BASE, Lake, a_round, row, rows_of, ten_rows
from tests.lake.tables.rest_catalog import RestCatalog, serving
from tests.lake.tables.s3_proxy import proxied


def test_a_put_of_the_delta_log_without_an_answer_is_found_again(s3: str, s3_url: str, monkeypatch: pytest.MonkeyPatch):
    lake = Lake(s3_url, "delta")
    files = [ten_rows(lake, number) for number in range(1, 6)]
    again = [ten_rows(lake, number, tries="-again") for number in range(1, 6)]
    with proxied(s3) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        assert lake.table().commit(a_round(1, files[:1]))
        for number in range(2, 6):
            proxy.lose(1)
            assert lake.table().commit(a_round(number, [files[number - 1]]))
            assert not lake.table().commit(a_round(number, [again[number - 1]]))
        assert proxy.lost == 4
        assert lake.offsets() == rows_of(5)


@pytest.fixture
def rest(tmp_path: Path):
    catalog = SqlCatalog("rest", uri=f"sqlite:///{tmp_path}/rest.db", warehouse=(tmp_path / "lake").as_uri())
    catalog.create_namespace("ottla")
    with serving(catalog) as server:
        yield server


def test_a_rest_catalog_takes_rounds_and_columns_and_keys(rest: RestCatalog, tmp_path: Path):
    lake = Lake((tmp_path / "lake").as_uri(), "iceberg", rest.url)
    assert lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    assert not lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    wide = BASE.set(BASE.get_field_index("id"), pa.field("id", pa.float64()))
    file = lake.put("orders/2.parquet", [row(10, id=0.5)], wide)
    assert lake.table().commit(a_round(2, [file], schema=wide))
    assert lake.table().compact().files_before == 2
    staged = lake.put("_ottla/3.parquet", [row(11, id=0.5)], wide)
    assert lake.table().commit_keyed(a_round(3, [staged], schema=wide), ("id",))
    assert lake.offsets() == [*rows_of(1), (0, 11)]


def test_an_answer_of_a_rest_catalog_that_is_lost_is_found_again(rest: RestCatalog, tmp_path: Path):
    lake = Lake((tmp_path / "lake").as_uri(), "iceberg", rest.url)
    assert lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    for number in range(2, 6):
        rest.lose = 1
        assert lake.table().commit(a_round(number, [ten_rows(lake, number)]))
        assert not lake.table().commit(a_round(number, [ten_rows(lake, number, tries="-again")]))
    assert rest.lost == 4
    assert lake.offsets() == rows_of(5)


def test_a_widening_whose_answer_is_lost_happens_once(rest: RestCatalog, tmp_path: Path):
    lake = Lake((tmp_path / "lake").as_uri(), "iceberg", rest.url)
    assert lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    wide = BASE.set(BASE.get_field_index("id"), pa.field("id", pa.float64()))
    rest.lose = 1
    file = lake.put("orders/2.parquet", [row(10, id=0.5)], wide)
    assert lake.table().commit(a_round(2, [file], schema=wide))
    assert rest.lost == 1
    assert lake.frame().sort("offset")["id"].to_list() == [*map(float, range(10)), 0.5]
