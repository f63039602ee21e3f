"""A process that commits, for races and kills."""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
from tests.lake.tables.made import BASE, Lake, a_round, row, ten_rows

from ottla.lake.columns.json_columns import DELETED
from ottla.lake.tables import TableFile
from ottla.stores.base import StoreUnreachable

KEYS = 7
WIDE = BASE.set(BASE.get_field_index("id"), pa.field("id", pa.float64()))


def race(lake: Lake, loader: str, number: str, gate: str, kind: str = "append") -> None:
    """Commit one round as soon as the file `gate` is there; print whether this process made it visible."""
    name = f"orders/{loader}-{number}-{random.getrandbits(64):x}.parquet"
    schema = WIDE if kind == "wide" else BASE
    one = row(int(number) * 1000, id=0.5 if kind == "wide" else 1)
    file = staged(lake, int(number)) if kind == "keyed" else lake.put(name, [one], schema)
    done = a_round(int(number), [file], loader=loader, schema=schema)
    table = lake.table()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not Path(gate).exists():
        time.sleep(0.001)
    visible = table.commit_keyed(done, ("id",)) if kind == "keyed" else table.commit(done)
    sys.stdout.write(f"{visible}\n")


def rounds(lake: Lake, last: str) -> None:
    """Commit rounds from the table's last one to `last`, like a restarted loader."""
    held = lake.table().standing("L")
    for number in range(1 if held is None else max(1, held.number), int(last) + 1):
        lake.table().commit(a_round(number, [ten_rows(lake, number, tries=f"-{random.getrandbits(64):x}")]))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def keyed_rounds(lake: Lake, last: str) -> None:
    """Commit rounds like `rounds`, but every row has one of seven keys, and every fourth round deletes one."""
    held = lake.table().standing("L")
    for number in range(1 if held is None else max(1, held.number), int(last) + 1):
        lake.table().commit_keyed(a_round(number, [staged(lake, number)]), ("id",))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def staged(lake: Lake, number: int) -> TableFile:
    """The staged file of a keyed round: three rows, and in every fourth round a delete of the first one's key."""
    rows = [row(offset, id=offset % KEYS) for offset in range(number * 3, number * 3 + 3)]
    schema = BASE.append(pa.field(DELETED, pa.bool_()))
    marked = [each | {DELETED: number % 4 == 0 and place == 0} for place, each in enumerate(rows)]
    return lake.put(f"_staged/{number}-{random.getrandbits(64):x}.parquet", marked, schema)


def keyed_rows(last: int) -> list[tuple[int, int]]:
    """(key, offset) of every row of a keyed table after the rounds 1 to `last`."""
    found: dict[int, int] = {}
    for offset in range(3, last * 3 + 3):
        if offset // 3 % 4 == 0 and offset % 3 == 0:
            found.pop(offset % KEYS, None)
        else:
            found[offset % KEYS] = offset
    return sorted(found.items())


def compact(lake: Lake) -> None:
    """Compact and expire until killed."""
    while True:
        try:
            lake.table().compact()
            lake.table().expire(timedelta(hours=1))
        except StoreUnreachable as busy:
            sys.stdout.write(f"{busy}\n")


def main(words: list[str], environment: dict[str, str], told: Connection) -> None:
    """Do the work that the words name (WORK URL FORMAT CATALOG ...) with the test's environment; tell its lines."""
    os.environ.clear()
    os.environ.update(environment)
    work, url, format, catalog, *arguments = words
    with open(told.fileno(), "w", encoding="utf-8", closefd=False) as sys.stdout:
        {"race": race, "rounds": rounds, "keyed": keyed_rounds, "compact": compact}[work](
            Lake(url, format, catalog), *arguments
        )
