"""Opening tables: a missing part is named in the error, and a commit's files are synced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.lake.tables.made import BASE, Lake, a_round, row, ten_rows

from ottla.lake.tables.delta_place import storage_options
from ottla.stores import LakeRefused, local_path

OPEN = """
import sys
sys.modules[{library!r}] = None
from ottla.lake import LakeRefused
from ottla.lake.tables import open_table
try:
    open_table("file:///lake", {format!r}, "orders", catalog="sqlite:////catalog.db")
except LakeRefused as refused:
    print(refused)
"""


@pytest.mark.parametrize(("library", "format"), [("deltalake", "delta"), ("pyiceberg", "iceberg")])
def test_a_missing_library_is_named_with_the_extra_that_brings_it(library: str, format: str):
    done = subprocess.run(
        [sys.executable, "-c", OPEN.format(library=library, format=format)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"--format {format} needs {library}" in done.stdout
    assert "pip install 'ottla[lake]'" in done.stdout


def test_opening_the_tables_package_needs_no_format_library():
    code = (
        "import sys, ottla.lake.tables; print([m for m in ('deltalake', 'pyiceberg', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_plain_http_is_allowed_where_the_endpoint_is_plain_http(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert storage_options("s3://b/x") == {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true"}
    assert storage_options("file:///x") == {}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://s3.example")
    assert storage_options("s3://b/x") == {"AWS_ENDPOINT_URL": "https://s3.example"}
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert storage_options("s3://b/x") == {}


def test_what_a_commit_names_is_synced_when_it_returns(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    synced: set[str] = set()
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    wide = BASE.set(BASE.get_field_index("id"), pa.field("id", pa.float64()))
    staged = lake.put("_staged/2.parquet", [row(5, id=1.5), row(10, id=3.0)], wide)
    lake.table().commit_keyed(a_round(2, [staged], schema=wide), ("id",))
    root = local_path(lake.url) / "orders"
    made = {str(path) for path in root.rglob("*") if path.is_file() and "p0-" not in path.name}
    assert len(made) >= 5
    assert made - synced == set()
    assert {str(Path(path).parent) for path in made} - synced == set()


def test_damaged_metadata_of_an_iceberg_table_is_refused_by_name(tmp_path: Path):
    lake = Lake(f"file://{tmp_path}/lake", "iceberg", f"sqlite:///{tmp_path}/catalog.db")
    lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    for metadata in (tmp_path / "lake").rglob("*.metadata.json"):
        metadata.write_bytes(b"")
    with pytest.raises(LakeRefused, match=r"metadata of the Iceberg table ottla\.orders is damaged"):
        lake.table().standings()
