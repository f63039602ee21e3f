"""Sound and faulty bytes of producers, with Apache Kafka's answers to them (`verdicts.json.gz`).

`python tests/records/verdicts.py JARS` asks Kafka again: it compiles and runs Verdicts.java with the jars in that
folder on the cases made here, and rewrites the file. The cases come from seeds, so they are always the same.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack, pack_into
from typing import NamedTuple

from ottla.records.batch import seal
from ottla.records.builder import build_batch
from ottla.records.compression import Codec, compress
from ottla.records.header import HEADER_SIZE
from ottla.records.reader import Record

HERE = Path(__file__).parent
FILE = HERE / "verdicts.json.gz"
NOW = 1_700_000_000_000
TOPICS = {
    "plain": [],
    "compacted": ["cleanup.policy=compact"],
    "append time": ["message.timestamp.type=LogAppendTime"],
    "bounded time": [f"message.timestamp.before.max.ms={10**15}", "message.timestamp.after.max.ms=1000"],
}


class Verdict(NamedTuple):
    """One case and Kafka's answer to it."""

    name: str
    topic: str
    records: bytes
    code: int
    max_timestamp: int
    refused: list[int]


def some_records(dice: random.Random, count: int) -> list[Record]:
    def maybe(most: int) -> bytes | None:
        return None if dice.random() < 0.2 else dice.randbytes(dice.randrange(most))

    return [
        Record(
            index,
            NOW + dice.randrange(-50, 50),
            b"key" if index % 2 else maybe(12),
            maybe(40),
            tuple((f"h{n}", maybe(8)) for n in range(dice.choice((0, 0, 1, 3)))),
        )
        for index in range(count)
    ]


def sealed(batch: bytearray) -> bytes:
    seal(batch)
    return bytes(batch)


def with_payload(batch: bytes, payload: bytes, codec: Codec = Codec.NONE) -> bytes:
    """The batch's header over other record bytes, which are compressed first."""
    whole = bytearray(batch[:HEADER_SIZE])
    pack_into(">h", whole, 21, codec)
    return sealed(whole + compress(codec, payload))


def with_field(batch: bytes, kind: str, position: int, value: int, *, reseal: bool = True) -> bytes:
    whole = bytearray(batch)
    pack_into(">" + kind, whole, position, value)
    if reseal:
        seal(whole)
    return bytes(whole)


def header_cases(sound: bytes) -> Iterator[tuple[str, bytes]]:
    """A sound batch of seven records, with one wrong field in the header of each case."""
    yield "nothing", b""
    yield "base offset", with_field(sound, "q", 0, 5)
    yield "negative base offset", with_field(sound, "q", 0, -1)
    for size in (-1, 0, 13, 14, 20, 48, 49, len(sound) - 13, len(sound) - 11, len(sound) + 5, 2**31 - 1):
        yield f"length {size}", with_field(sound, "i", 8, size, reseal=False)
    for magic in (0, 1, 3, 127, -1, -128):
        yield f"magic {magic}", with_field(sound, "b", 16, magic)
    yield "crc", with_field(sound, "I", 17, 12345, reseal=False)
    for codec in (5, 6, 7):
        yield f"codec {codec}", with_field(sound, "h", 21, codec)
    for bits in (0x08, 0x10, 0x20, 0x30, 0x40, 0x80, 0x4000, -0x8000):
        yield f"attributes {bits}", with_field(sound, "h", 21, bits)
    for delta in (-(2**31), -2, -1, 0, 5, 7, 2**31 - 1):
        yield f"last offset delta {delta}", with_field(sound, "i", 23, delta)
    for count in (-(2**31), -1, 0, 6, 8, 2**31 - 1):
        yield f"count {count}", with_field(sound, "i", 57, count)
        yield (
            f"count and delta {count}",
            with_field(with_field(sound, "i", 57, count), "i", 23, max(count - 1, -(2**31))),
        )
    for timestamp in (-1, 0, NOW + 10**6, -(2**63), 2**63 - 1):
        yield f"max timestamp {timestamp}", with_field(sound, "q", 35, timestamp)
        yield f"append time {timestamp}", with_field(with_field(sound, "q", 35, timestamp), "h", 21, 0x08)
    for timestamp in (-1, 0, 2**63 - 1, -(2**63)):
        yield f"base timestamp {timestamp}", with_field(sound, "q", 27, timestamp)
    for producer, epoch, sequence in ((-1, 0, 0), (-1, -1, 5), (7, 0, -1), (7, 0, 0), (7, 3, 9), (-2, 0, 0)):
        whole = bytearray(sound)
        pack_into(">qhi", whole, 43, producer, epoch, sequence)
        yield f"producer {producer} epoch {epoch} sequence {sequence}", sealed(whole)
    yield "two batches", sound + sound
    yield "a cut second batch", sound + sound[:-1]
    yield "trailing bytes", sound + bytes(5)
    yield "a corrupt second batch", sound + with_field(sound, "i", 8, 3, reseal=False)
    for end in (1, 11, 12, 16, 17, 21, 60, 61, len(sound) - 1):
        yield f"cut at {end}", sound[:end]


def record_cases(sound: bytes) -> Iterator[tuple[str, bytes]]:
    """Hand-made faults in the records of a sound batch."""
    payload = sound[HEADER_SIZE:]
    one = with_field(with_field(sound, "i", 57, 1), "i", 23, 0)
    yield "records end early", with_payload(sound, payload[:-3])
    yield "records end late", with_payload(sound, payload + b"\x00")
    yield "no records", with_payload(sound, b"")
    for name, body in (
        ("empty record", b""),
        ("attributes only", b"\x00"),
        ("no headers count", b"\x00\x00\x00\x01\x01"),
        ("least", b"\x00\x00\x00\x01\x01\x00"),
        ("null key of length -5", b"\x00\x00\x00\x09\x01\x00"),
        ("record attributes", b"\xff\x00\x00\x01\x01\x00"),
        ("negative header count", b"\x00\x00\x00\x01\x01\x01"),
        ("too many headers", b"\x00\x00\x00\x01\x01\x7e"),
        ("header without name", b"\x00\x00\x00\x01\x01\x02\x01\x01"),
        ("header of empty name", b"\x00\x00\x00\x01\x01\x02\x00\x01"),
        ("long varint zero", b"\x00\x80\x00\x00\x01\x01\x00"),
        ("offset delta 1", b"\x00\x00\x02\x01\x01\x00"),
        ("offset varint of 6 bytes", b"\x00\x00\x80\x80\x80\x80\x80\x00\x01\x01\x00"),
        ("timestamp varint of 10 bytes", b"\x00" + b"\x80" * 9 + b"\x01\x00\x01\x01\x00"),
        ("timestamp varint of 11 bytes", b"\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00"),
        ("key past the end", b"\x00\x00\x00\x7e\x01\x00"),
        ("value past the end", b"\x00\x00\x00\x01\x7e\x00"),
        ("bytes after headers", b"\x00\x00\x00\x01\x01\x00\x00"),
    ):
        yield name, with_payload(one, bytes([2 * len(body)]) + body)
    least = b"\x00\x00\x00\x01\x01\x00"
    yield "record length too small", with_payload(one, b"\x0a" + least)
    yield "record length too large", with_payload(one, b"\x0e" + least)
    yield "record length negative", with_payload(one, b"\x0d" + least)


def mutated(dice: random.Random, payload: bytes) -> bytes:
    changed = bytearray(payload)
    for _ in range(dice.choice((1, 1, 2))):
        changed[dice.randrange(len(changed))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    return bytes(changed)


def all_cases() -> Iterator[tuple[str, str, bytes]]:
    """(name, topic, bytes)."""
    dice = random.Random(43)
    sound = build_batch(some_records(dice, 7))
    for topic in TOPICS:
        for codec in Codec:
            yield f"sound {codec.name}", topic, build_batch(some_records(dice, 9), codec=codec)
            late = [Record(0, NOW + 10**12 * (n == 2), b"k" if n else None, b"v") for n in range(4)]
            yield f"a late record {codec.name}", topic, build_batch(late, codec=codec)
            keyed = [Record(0, -1, b"k", b"v") for n in range(3)]
            yield f"keyed, no time {codec.name}", topic, build_batch(keyed, codec=codec)
        yield "append time claimed", topic, build_batch(some_records(dice, 3), append_time_ms=NOW)
        yield "append time of no time", topic, build_batch(some_records(dice, 3), append_time_ms=-1)
        yield "late append time", topic, build_batch(some_records(dice, 3), append_time_ms=NOW + 10**12)
    for name, records in (*header_cases(sound), *record_cases(sound)):
        yield name, "plain", records
    for number in range(150):
        sound = build_batch(some_records(dice, dice.randrange(1, 6)))
        yield f"mutated {number}", "plain", with_payload(sound, mutated(dice, sound[HEADER_SIZE:]))
    for number in range(80):
        sound = build_batch(some_records(dice, dice.randrange(1, 6)))
        codec = Codec(1 + number % 4)
        yield f"mutated, {codec.name} {number}", "plain", with_payload(sound, mutated(dice, sound[HEADER_SIZE:]), codec)
        packed = build_batch(some_records(dice, dice.randrange(1, 20)), codec=codec)
        changed = sealed(bytearray(packed[:HEADER_SIZE] + mutated(dice, packed[HEADER_SIZE:])))
        yield f"mutated stream {codec.name} {number}", "plain", changed


def ask_kafka(jars: str) -> list[Verdict]:
    """Compile Verdicts.java and run it once a topic."""
    cases = list(all_cases())
    verdicts = []
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", work, str(HERE / "Verdicts.java")], check=True)
        for topic, options in TOPICS.items():
            chosen = [(name, records) for name, of, records in cases if of == topic]
            Path(work, "cases").write_bytes(b"".join(pack(">i", len(records)) + records for _, records in chosen))
            command = ["java", "-cp", f"{work}:{jars}/*", "Verdicts", f"{work}/cases", *options]
            lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
            answers = [line for line in lines if line[:1].isdigit() or line[:1] == "-"]
            assert len(answers) == len(chosen), lines[-5:]
            for (name, records), answer in zip(chosen, answers, strict=True):
                code, timestamp, refused = answer.split(" ")
                indexes = [int(index) for index in refused.split(",") if index]
                verdicts.append(Verdict(name, topic, records, int(code), int(timestamp), indexes))
    return verdicts


def load(decode: Callable[[str], bytes] = base64.b64decode) -> list[Verdict]:
    """Kafka's verdicts as they were last recorded."""
    rows = json.loads(gzip.decompress(FILE.read_bytes()))
    return [Verdict(name, topic, decode(records), *rest) for name, topic, records, *rest in rows]


def main() -> None:
    rows = [
        (one.name, one.topic, base64.b64encode(one.records).decode(), one.code, one.max_timestamp, one.refused)
        for one in ask_kafka(sys.argv[1])
    ]
    FILE.write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))
    print(f"{len(rows)} verdicts")


if __name__ == "__main__":
    main()
