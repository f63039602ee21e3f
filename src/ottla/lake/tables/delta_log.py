"""The memory of a Delta log beside the table's files: how far each loader is, and which files were removed when.

Standings are kept as transactions of the log (`txn` actions) beside the loader's own, because the protocol carries
those through every checkpoint and every clean-up of the log:

    LOADER                           number of the newest round (the guard; what `transaction_version` reads)
    LOADER#TOPIC_ID#round            the same, and which topic the offsets belong to
    LOADER#TOPIC_ID#PARTITION#offset the next offset to load
    LOADER#TOPIC_ID#PARTITION#rows   the rows ever loaded
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from ottla.kernel.ids import NO_TOPIC_ID, parse_topic_id, topic_id_text
from ottla.lake.tables.base import LoaderStanding

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?(?:\.[0-9a-f-]{36})?\.(parquet|json)")


def transactions_of(standing: LoaderStanding) -> dict[str, int]:
    """The transactions to commit with a round."""
    topic = "" if standing.topic_id == NO_TOPIC_ID else topic_id_text(standing.topic_id)
    base = f"{standing.loader}#{topic}"
    found = {standing.loader: standing.number, f"{base}#round": standing.number}
    found |= {f"{base}#{partition}#offset": offset for partition, offset in sorted(standing.offsets.items())}
    found |= {f"{base}#{partition}#rows": rows for partition, rows in sorted(standing.rows.items())}
    return found


def standings_in(transactions: dict[str, int]) -> list[LoaderStanding]:
    """The newest standing of each loader, sorted; transactions of other programs are left alone."""
    newest: dict[str, tuple[int, str]] = {}
    for name, number in transactions.items():
        base, _, kind = name.rpartition("#")
        loader, separator, topic = base.rpartition("#")
        if kind == "round" and separator and transactions.get(loader) is not None:
            newest[loader] = max(newest.get(loader, (-1, "")), (number, topic))
    return [_standing(loader, *newest[loader], transactions) for loader in sorted(newest)]


def _standing(loader: str, number: int, topic: str, transactions: dict[str, int]) -> LoaderStanding:
    numbers: dict[str, dict[int, int]] = {"offset": {}, "rows": {}}
    prefix = f"{loader}#{topic}#"
    for name, version in transactions.items():
        partition, _, kind = name.removeprefix(prefix).partition("#")
        if name.startswith(prefix) and kind in numbers and partition.isdigit():
            numbers[kind][int(partition)] = version
    topic_id = parse_topic_id(topic) if topic else NO_TOPIC_ID
    return LoaderStanding(loader, number, numbers["offset"], numbers["rows"], topic_id)


def read_transactions(files: pa_fs.FileSystem) -> dict[str, int]:
    """Every application's newest transaction in the table whose root is the file system's."""
    return {action["appId"]: action["version"] for action in _actions(files, "txn")}


def read_removed(files: pa_fs.FileSystem) -> dict[str, int]:
    """The files that the log remembers as removed, by path, with the moment of it in milliseconds."""
    return {unquote(action["path"]): action["deletionTimestamp"] or 0 for action in _actions(files, "remove")}


def _actions(files: pa_fs.FileSystem, kind: str) -> Iterator[dict[str, Any]]:
    """All actions of a kind, those of the newest checkpoint first and then commit by commit."""
    names = [info.path.rpartition("/")[2] for info in files.get_file_info(pa_fs.FileSelector("_delta_log"))]
    version, checkpoint = _newest_checkpoint(names)
    for name in checkpoint:
        yield from _of_checkpoint(files, f"_delta_log/{name}", kind)
    for name in sorted(name for name in names if (match := _COMMIT.fullmatch(name)) and int(match[1]) > version):
        yield from _of_lines(files, f"_delta_log/{name}", kind)


def _newest_checkpoint(names: list[str]) -> tuple[int, list[str]]:
    """Version and files of the newest checkpoint that is whole; -1 and no files where there is none."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[2] or 0)), []).append(name)
    whole = [key for key, found in parts.items() if key[1] in (0, len(found))]
    if not whole:
        return -1, []
    key = max(whole)
    return key[0], parts[key] if key[1] else parts[key][:1]


def _of_checkpoint(files: pa_fs.FileSystem, path: str, kind: str) -> Iterator[dict[str, Any]]:
    if path.endswith(".json"):
        yield from _of_lines(files, path, kind)
        return
    with files.open_input_file(path) as source:
        parquet = pq.ParquetFile(source)
        if kind in parquet.schema_arrow.names:
            for batch in parquet.iter_batches(columns=[kind]):
                held = batch.column(0)
                yield from held.filter(held.is_valid()).to_pylist()


def _of_lines(files: pa_fs.FileSystem, path: str, kind: str) -> Iterator[dict[str, Any]]:
    with files.open_input_file(path) as source:
        for line in source.read().splitlines():
            if line.strip() and (action := json.loads(line).get(kind)) is not None:
                yield action
