"""Rates of the record code on one core: CRC, scan, decode to columns, encode; beside aiokafka's decoder.

Prints a table; `--json` prints the numbers alone. The best of several rounds counts, to leave other load out.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable

from aiokafka.record.default_records import DefaultRecordBatch

from ottla.records import compiled
from ottla.records.batch import Batch, check_batch, scan_records
from ottla.records.builder import BatchBuilder, build_batch
from ottla.records.checksum import crc32c
from ottla.records.columns import TimeUnit, decode_columns, encode_columns
from ottla.records.compression import Codec, compress, decompress
from ottla.records.reader import Record, read_records


def best(work: Callable[[], object], *, seconds: float = 0.6) -> float:
    """Seconds of the fastest round within a time budget."""
    fastest, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - began)
    return fastest


def a_run(batches: int, records: int, value_bytes: int, codec: Codec = Codec.NONE) -> bytes:
    """Contiguous batches with 14-byte keys, as a fetch response holds them."""
    dice = random.Random(1)
    value = dice.randbytes(value_bytes // 2) + b"x" * (value_bytes - value_bytes // 2)
    out, offset = b"", 0
    for _ in range(batches):
        rows = [Record(0, 1_700_000_000_000 + i, b"key-%010d" % i, value) for i in range(records)]
        out += build_batch(rows, base_offset=offset, codec=codec)
        offset += records
    return out


def aiokafka_rate(run: bytes, rows: int) -> float:
    """Rows per second to Python objects, CRC included."""
    starts = []
    position = 0
    while position < len(run):
        size = int.from_bytes(run[position + 8 : position + 12], "big") + 12
        starts.append(bytes(run[position : position + size]))
        position += size

    def work() -> None:
        for whole in starts:
            batch = DefaultRecordBatch(whole)
            batch.validate_crc()
            for record in batch:
                record.value  # noqa: B018 (the access is the work)

    return rows / best(work)


def measure() -> dict[str, float]:
    """All rates, per second."""
    rates: dict[str, float] = {}
    mib = random.Random(2).randbytes(1 << 20)
    rates["crc32c, bytes"] = len(mib) / best(lambda: crc32c(mib))
    small = mib[:300]
    rates["crc32c of 300 bytes, calls"] = 1 / best(lambda: crc32c(small), seconds=0.1)
    big = Batch(a_run(1, 5000, 185))
    taken = best(lambda: scan_records(big))
    rates["scan of a batch of 5,000 records, microseconds"] = taken * 1e6
    rates["scan, bytes"] = big.size / taken
    rates["check_batch of the same, microseconds"] = best(lambda: check_batch(big)) * 1e6
    one = a_run(1, 1, 200)
    rates["Batch + check + scan of one record, calls"] = 1 / best(
        lambda: (check_batch(batch := Batch(one)), scan_records(batch)), seconds=0.2
    )
    for name, batches, records, size in (
        ("decode, 4,000 x 200 B a batch, rows", 2, 4000, 200),
        ("decode, 50 x 200 B a batch, rows", 160, 50, 200),
        ("decode, 1 x 200 B a batch, rows", 8000, 1, 200),
        ("decode, 4,000 x 50 B a batch, rows", 2, 4000, 50),
    ):
        run = a_run(batches, records, size)
        rows = batches * records
        rates[name] = rows / best(lambda run=run: decode_columns(run, unit=TimeUnit.MICROS))
        if size == 200:
            rates[name + ", aiokafka to objects"] = aiokafka_rate(run, rows)
    run = a_run(2, 4000, 200)
    batch = Batch(run)
    rates["read_records, rows"] = 4000 / best(lambda: read_records(batch))
    columns = decode_columns(run)
    table = {"key": columns.key, "value": columns.value, "timestamp": (None, columns.timestamp)}
    rates["encode, 200 B, rows"] = columns.rows / best(lambda: list(encode_columns(columns.rows, **table)))
    value = bytes(200)

    def build() -> None:
        builder = BatchBuilder()
        for i in range(4000):
            builder.add(i, b"key-0123456789", value)
        builder.build()

    rates["BatchBuilder.add, rows"] = 4000 / best(build)
    records_bytes = bytes(batch.payload)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        packed = compress(codec, records_bytes)
        rates[f"compress {codec.name.lower()}, bytes"] = len(records_bytes) / best(
            lambda codec=codec: compress(codec, records_bytes), seconds=0.2
        )
        rates[f"decompress {codec.name.lower()}, bytes"] = len(records_bytes) / best(
            lambda codec=codec, packed=packed: decompress(codec, packed), seconds=0.2
        )
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    rates = measure()
    if wanted.json:
        print(json.dumps({"which": compiled.which(), **rates}))
        return
    print(compiled.which())
    for name, rate in rates.items():
        print(f"{name:52} {rate:16,.0f}")
    for name, rate in rates.items():
        if (other := rates.get(name + ", aiokafka to objects")) is not None:
            print(f"{name}: {rate / other:.1f} x aiokafka")


if __name__ == "__main__":
    main()
