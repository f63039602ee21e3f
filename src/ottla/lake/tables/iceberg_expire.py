"""Removes parts that an Iceberg table no longer needs: old snapshots, and files that no other snapshot names."""

from __future__ import annotations

import os
from datetime import datetime

import pyarrow.fs as pa_fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from ottla.stores.base import LakeRefused


def expire_snapshots(table: Table, before: datetime) -> None:
    """Forget the snapshots made before a moment, but those that branches and tags point at."""
    kept = {reference.snapshot_id for reference in table.metadata.refs.values()}
    limit = before.timestamp() * 1000
    if any(old.timestamp_ms < limit and old.snapshot_id not in kept for old in table.metadata.snapshots):
        table.maintenance.expire_snapshots().older_than(before).commit()


def unreferenced(table: Table, before: datetime) -> set[str]:
    """Files below the table's folder, by their names there, that no snapshot names and that are older than a moment.

    The catalog's own metadata files (`.json`) are left to the library, which keeps the last hundred. Snapshots may name
    a file by another location than the table's own: of another program, or of a lake that was given by another path.
    """
    listed = _listed(table)
    named = {_place_of(table, location) for location in _named(table.refresh())}
    old = {name for name, written in listed if not name.endswith(".json") and written < before}
    return {name for name in old if _place_of(table, f"{table.location()}/{name}") not in named}


def _place_of(table: Table, location: str) -> str:
    """The place behind a location: a file's real path, or bucket and key; whichever scheme stands before it."""
    assert isinstance(table.io, PyArrowFileIO)
    scheme, _, path = table.io.parse_location(location, table.io.properties)
    return os.path.realpath(path) if scheme == "file" else path


def _named(table: Table) -> set[str]:
    """All files that a snapshot names: manifest lists, manifests, data and delete files."""
    named: set[str] = {statistics.statistics_path for statistics in table.metadata.statistics}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in named:
                named.add(manifest.manifest_path)
                named |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return named


def _listed(table: Table) -> list[tuple[str, datetime]]:
    """Files below the table's folder, by their names there, with the moment they were written."""
    if not isinstance(table.io, PyArrowFileIO):
        raise LakeRefused(
            f"files of {table.location()} cannot be listed: pyiceberg reads them through {type(table.io)}"
        )
    scheme, host, path = table.io.parse_location(table.location(), table.io.properties)
    files = table.io.fs_by_scheme(scheme, host)
    selected = files.get_file_info(pa_fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [
        (info.path.removeprefix(path).lstrip("/"), info.mtime) for info in selected if info.type == pa_fs.FileType.File
    ]
