"""Measures what transformations cost the lake sink, which does them on Arrow batches, beside those of single records.

`python -m bench.lake_chain [--rows N] [--folder PLACE]` prints thousands of records a second, in one process: JSON to
columns and the chain on them; JSON to Connect's values and the same chain record by record; then whole loads of a topic
of a broker of ours without the chain and with it. The chain filters by a header, masks, renames and drops fields, lifts
members of objects, casts one field, and adds three. A tenth of the records has the header.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from bench.brokers import ROOT
from bench.lake_rig import TIME_MS, running_broker
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.connect.chain import Chain
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import STRING
from ottla.connect.records import Header, SinkRecord
from ottla.lake.columns.steps import RowSteps
from ottla.lake.columns.types import EMPTY
from ottla.lake.columns.values import ValueKind
from ottla.lake.notes.state import LakeState
from ottla.lake.rounds.loader import Loader
from ottla.lake.rounds.settings import load_settings, with_steps
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.rows.arrow import row_schema
from ottla.rows.workers import Here
from ottla.sinks.steps.chain import chain_steps
from ottla.stores import open_store

TOPIC = "orders"
BATCH_RECORDS = 4_000
ONE_IN = 10
RUNS = 3
CHAIN = {
    "transforms": "debug,mask,names,flat,price,place", "predicates": "debug",
    "predicates.debug.type": "HasHeaderKey", "predicates.debug.name": "debug",
    "transforms.debug.type": "Filter", "transforms.debug.predicate": "debug",
    "transforms.mask.type": "MaskField$Value", "transforms.mask.fields": "card",
    "transforms.names.type": "ReplaceField$Value", "transforms.names.exclude": "junk",
    "transforms.names.renames": "item:article",
    "transforms.flat.type": "Flatten$Value", "transforms.flat.delimiter": "_",
    "transforms.price.type": "Cast$Value", "transforms.price.spec": "price:float32,id:string",
    "transforms.place.type": "InsertField$Value", "transforms.place.topic.field": "topic_name",
    "transforms.place.offset.field": "at", "transforms.place.static.field": "site",
    "transforms.place.static.value": "north",
}  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench", help="where topic and lakes are put")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    steps = chain_steps(CHAIN).reading("json").of(TOPIC)
    documents = [json.dumps(document(at)).encode() for at in range(options.rows)]
    print(f"{sum(map(len, documents)) / options.rows:.0f} bytes in a value, {options.rows} records")
    on_columns(documents, steps)
    record_by_record(documents[: options.rows // 4])
    options.folder.mkdir(parents=True, exist_ok=True)
    loads(documents, steps, options.folder)


def document(at: int) -> dict[str, object]:
    """The value of a record, the same in each run."""
    return {
        "id": at * 7919, "item": f"item-{at % 1000:04}", "price": at % 9973 + 0.25, "paid": at % 2 == 0,
        "card": f"4111 {at % 10_000:04}", "junk": "x" * 20,
        "customer": {"number": at % 100_000, "address": {"city": f"city {at % 300}", "zip": f"{at % 99_999:05}"}},
    }  # fmt: skip


def on_columns(documents: list[bytes], steps: RowSteps) -> None:
    """JSON to columns, and the chain on them."""
    batches = [_batch(documents[begin : begin + BATCH_RECORDS]) for begin in range(0, len(documents), BATCH_RECORDS)]
    reader = ValueKind("json").reader(TOPIC)
    schema = reader.read(batches[0].column("value"), EMPTY).wanted
    tables = [reader.read(each.column("value"), schema).table for each in batches]
    rate("JSON to columns", len(documents), lambda: [reader.read(each.column("value"), schema) for each in batches])
    rate(
        "the chain on columns",
        len(documents),
        lambda: [steps.apply(table, each) for table, each in zip(tables, batches, strict=True)],
    )


def record_by_record(documents: list[bytes]) -> None:
    """JSON to the values of Connect's records, and the chain on each."""
    converter, chain = JsonConverter({"converter.type": "value", "schemas.enable": "false"}), Chain(CHAIN)
    records = [_record(converter, at, text) for at, text in enumerate(documents)]
    rate("JSON to values", len(records), lambda: [converter.to_connect(TOPIC, text) for text in documents])
    rate("the chain record by record", len(records), lambda: [chain.apply(record) for record in records])


def loads(documents: list[bytes], steps: RowSteps, where: Path) -> None:
    """Whole loads, from the topic to files."""
    folder = Path(tempfile.mkdtemp(prefix="chain-", dir=where))
    try:
        with running_broker(folder) as address:
            _fill(address, documents)
            for title, given in (("a load", None), ("a load through the chain", steps)):
                rate(title, len(documents), _Load(folder, address, len(documents), given).once)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Load:
    """Loads the topic into a new lake each time."""

    def __init__(self, folder: Path, address: str, records: int, steps: RowSteps | None) -> None:
        self._folder, self._address, self._records, self._steps = folder, address, records, steps

    def once(self) -> None:
        place = Path(tempfile.mkdtemp(dir=self._folder))
        settings = load_settings((TOPIC,), place, {"bootstrap": self._address, "json": True})
        settings = replace(settings, most_offsets=self._records)
        if self._steps is not None:
            settings = with_steps(settings, self._steps)
        with LakeState(open_store(settings.url)) as state:
            loader = Loader(settings, state, lambda _: Here(), lambda _: None)
            loader.catch_up()
            loaded = loader.loaded
            loader.close()
        dropped = -(-self._records // ONE_IN) if self._steps is not None else 0
        if not loaded.adds_up or (loaded.rows, loaded.filtered) != (self._records - dropped, dropped):
            raise RuntimeError(f"{loaded} of {self._records} records")


def _fill(address: str, documents: list[bytes]) -> None:
    Admin(address).create_topic(TOPIC, 1)
    with Cluster(address) as cluster:
        for begin in range(0, len(documents), BATCH_RECORDS):
            part = documents[begin : begin + BATCH_RECORDS]
            records = [Record(0, TIME_MS + at, b"key", value, _headers(begin + at)) for at, value in enumerate(part)]
            cluster.produce(TOPIC, 0, build_batch(records))


def _headers(at: int) -> tuple[tuple[str, bytes], ...]:
    return (("debug", b"1"),) if at % ONE_IN == 0 else ()


def _batch(values: list[bytes]) -> pa.RecordBatch:
    count = len(values)
    headers = [[{"key": name, "value": text} for name, text in _headers(at)] or None for at in range(count)]
    schema = row_schema(("value", "headers", "partition", "offset", "timestamp"))
    columns = [values, headers, [0] * count, list(range(count)), [TIME_MS * 1000] * count]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _record(converter: JsonConverter, at: int, text: bytes) -> SinkRecord:
    read = converter.to_connect(TOPIC, text)
    headers = tuple(Header(name, STRING, value.decode()) for name, value in _headers(at))
    return SinkRecord(
        TOPIC, 0, value_schema=read.schema, value=read.value, headers=headers, timestamp=TIME_MS, offset=at
    )


def rate(label: str, rows: int, once: Callable[[], object]) -> None:
    """Print the best rate of some runs."""
    best = float("inf")
    for _ in range(RUNS):
        started = time.perf_counter()
        once()
        best = min(best, time.perf_counter() - started)
    print(f"{label:28} {rows / best / 1000:8,.0f} k/s")


if __name__ == "__main__":
    main()
