"""Measures how fast Avro payloads become Arrow columns, beside fastavro, in one process on one core.

`python -m bench.avro_decode [--rows N]` prints thousands of records a second: the decoder, from the prefix on; its
reader of single rows; fastavro to dicts, and to an Arrow table by way of them. Records have seven fields.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import time
from collections.abc import Callable

import fastavro
import pyarrow as pa

from ottla.formats.avro import AvroReader
from ottla.formats.avro_rows import RowReader
from ottla.formats.decoder import Decoder
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "int"},
        {"name": "item", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    pa.set_cpu_count(1)
    parsed = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    encoded = payloads(rows)
    values = framed(7, list(encoded))
    writer = WriterSchema("AVRO", json.dumps(SCHEMA))
    decoder, alone = Decoder("avro", lambda _: writer), RowReader(AvroReader(writer).node)
    print(f"{sum(map(len, encoded)) / rows:.1f} bytes in a payload, {rows} of them")
    rate("decoder to Arrow", rows, lambda: decoder.decode(values).table)
    some = encoded[: rows // 4]
    rate("its row reader, to plain values", len(some), lambda: [alone.read(payload) for payload in some])
    rate("fastavro, to dicts", len(some), lambda: _dicts(parsed, some))
    rate(
        "fastavro, to Arrow",
        len(some),
        lambda: pa.Table.from_pylist(_dicts(parsed, some), decoder.decode(values[:1]).wanted),
    )


def payloads(rows: int) -> list[bytes]:
    """Encoded records, the same in each run."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    return [_payload(parsed, at) for at in range(rows)]


def _payload(parsed: object, at: int) -> bytes:
    draw = random.Random(at)
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out,
        parsed,
        {
            "id": at * 7919,
            "customer": draw.randrange(1_000_000),
            "item": f"item-{at % 1000:04}",
            "price": draw.random() * 100,
            "paid": at % 2 == 0,
            "note": None if at % 3 else f"note {at}",
            "at": 1_700_000_000_000 + at,
        },
    )
    return out.getvalue()


def _dicts(parsed: object, payloads: list[bytes]) -> list[object]:
    return [fastavro.schemaless_reader(io.BytesIO(payload), parsed, None) for payload in payloads]


def rate(label: str, rows: int, once: Callable[[], object]) -> None:
    """Print the best rate of five runs."""
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        once()
        best = min(best, time.perf_counter() - started)
    print(f"{label:35} {rows / best / 1000:8,.0f} k/s")


if __name__ == "__main__":
    main()
