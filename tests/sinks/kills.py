"""Workers killed in the middle of a sink's work: scenes for the campaign, and for the short test beside this file.

`run(scene, ...)` sends numbers, kills the worker again and again, and returns what is missing or there twice.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla import lake
from ottla.client import Producer

PARTITIONS = 2
TOGETHER = 10
"""Records of a file on S3; each burst fills files of both partitions, so that nothing waits for more."""
BURST = 200
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_LIMIT_S = 120


@dataclass(frozen=True)
class Scene:
    """A sink: its options, and the numbers that are found where it writes."""

    name: str
    options: dict[str, str]
    found: Callable[[], list[int]]


def files_scene(folder: Path) -> Scene:
    """The HDFS sink on a local folder. The clock ends files, so each worker ends them at other records."""

    def found() -> list[int]:
        return [number for path in folder.rglob("topics/numbers/**/*.json") for number in _numbers(path.read_bytes())]

    by_clock = {"flush.size": "37", "rotate.schedule.interval.ms": "150", "timezone": "UTC"}
    return Scene("files", {"connector.class": "HdfsSink", "store.url": folder.as_uri(), **_FILES, **by_clock}, found)


def s3_scene(url: str, bucket: str, client: Any) -> Scene:
    """The S3 sink; `client` is a boto3 client of the same server."""

    def found() -> list[int]:
        numbers: list[int] = []
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="topics/numbers/"):
            for each in page.get("Contents", []):
                numbers += _numbers(client.get_object(Bucket=bucket, Key=each["Key"])["Body"].read())
        return numbers

    options = {
        "connector.class": "S3Sink", "s3.bucket.name": bucket, "store.url": url, "s3.region": "us-east-1",
        "aws.access.key.id": "test", "aws.secret.access.key": "test",
    }  # fmt: skip
    return Scene("s3", options | _FILES, found)


def lake_scene(folder: Path) -> Scene:
    """The lake sink on a local folder."""

    def found() -> list[int]:
        try:
            return list(lake.rows(folder, "numbers").read_all()["n"].to_pylist())
        except (OSError, lake.LakeRefused, KeyError):
            return []  # nothing is loaded yet

    options = {"connector.class": "LakeSink", "to": str(folder), "every": "50ms", "json": "true"}
    return Scene("lake", options, found)


_FILES = {
    "flush.size": str(TOGETHER), "format.class": "JsonFormat", "partitioner.class": "FieldPartitioner",
    "partition.field.name": "odd", "consumer.override.group.instance.id": "one",
}  # fmt: skip


def _numbers(content: bytes) -> Iterator[int]:
    return (json.loads(line)["n"] for line in content.splitlines())


def run(scene: Scene, bootstrap: str, folder: Path, *, kills: int, seed: int) -> dict[int, int]:
    """The numbers that are not there exactly once, with how often they are; empty if all is well."""
    choose, sent = random.Random(seed), 0
    worker, connector = folder / "worker.properties", folder / "sink.json"
    worker.write_text(
        f"bootstrap.servers={bootstrap}\nkey.converter={_JSON}\nvalue.converter={_JSON}\n"
        "key.converter.schemas.enable=false\nvalue.converter.schemas.enable=false\n"
        f"offset.storage.file.filename={folder}/offsets\noffset.flush.interval.ms=100\n"
    )
    connector.write_text(json.dumps({"name": scene.name, "topics": "numbers", **scene.options}))
    command = [sys.executable, "-m", "ottla", "connect", "start", str(worker), str(connector)]
    for life in range(kills + 1):
        _send(bootstrap, sent)
        sent += BURST
        with open(folder / f"worker-{life}.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            # A kill comes at a moment between the first record of this burst and the last one.
            wanted = sent if life == kills else sent - BURST + choose.randrange(1, BURST // 2)
            _until(lambda wanted=wanted: len(set(scene.found())) >= wanted, process)
            if life < kills:
                time.sleep(choose.random() * 0.2)
        finally:
            process.send_signal(signal.SIGKILL if life < kills else signal.SIGTERM)
            status = process.wait()
    assert status == 0, (folder / f"worker-{kills}.log").read_text()
    counts = Counter(scene.found())
    return {number: counts[number] for number in {*range(sent), *counts} if counts[number] != 1}


def _send(bootstrap: str, first: int) -> None:
    with Producer(bootstrap) as producer:
        for number in range(first, first + BURST):
            value = json.dumps({"n": number, "odd": number // PARTITIONS % 2}).encode()
            producer.produce("numbers", value, partition=number % PARTITIONS)


def _until(true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _LIMIT_S
    while not true():
        assert process.poll() is None, "the worker ended by itself"
        assert time.monotonic() < until, "the worker makes no progress"
        time.sleep(0.02)
