"""What a line of the race stands on: the driver, the two running brokers, topics of its own, and one timed run."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import ROOT, Broker, KafkaBroker, OttlaBroker
from bench.clusters import Cluster, KafkaCluster, OttlaCluster

CONTESTANTS: dict[str, type[Broker | Cluster]] = {
    "ottla": OttlaBroker,
    "kafka": KafkaBroker,
    "ottla-cluster": OttlaCluster,
    "kafka-cluster": KafkaCluster,
}
DRIVER_SECONDS = 300
FREE_BYTES = 2 << 30
"""More than one run writes."""
MADV_POPULATE_WRITE = 23
"""Linux 5.14; Python's `mmap` has no name for it."""


@dataclass
class Rig:
    """Built once per race."""

    folder: Path
    """Where both brokers keep their data: the same file system."""
    quick: bool = False
    brokers: dict[str, Broker | Cluster] = field(default_factory=dict)
    _topics: Iterator[int] = field(default_factory=count)

    def broker(self, name: str) -> Broker | Cluster:
        """The running broker or cluster of that name, started at the first call."""
        if name not in self.brokers:
            broker = self.fresh_broker(name)
            broker.start()
            self.brokers[name] = broker
        return self.brokers[name]

    def fresh_broker(self, name: str) -> Broker | Cluster:
        """One that is not started, in a folder of its own."""
        return CONTESTANTS[name](self.folder / f"{name}-{next(self._topics)}")

    def sized(self, records: int) -> int:
        """As many records as a run of this length takes."""
        return max(records // 5, 1) if self.quick else records

    @contextlib.contextmanager
    def topic(self, name: str, partitions: int = 1) -> Iterator[str]:
        """A new topic, deleted afterwards."""
        broker = self.broker(name)
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        topic = f"race-{next(self._topics)}"
        new = NewTopic(topic, partitions, broker.replicas, config=broker.topic_configuration)
        for outcome in admin.create_topics([new], operation_timeout=30).values():
            outcome.result(30)
        try:
            yield topic
        finally:
            for outcome in admin.delete_topics([topic], operation_timeout=30).values():
                outcome.result(30)

    def drive(self, name: str, mode: str, **options: object) -> dict[str, float]:
        """One run of the driver against a broker, with the broker's processor time and memory."""
        broker = self.broker(name)
        # What the run before left in the page cache would be written out during this one.
        os.sync()
        touch_free_memory()
        cpu = broker.cpu_seconds()
        run = driven(mode, brokers=broker.address, **options)
        moved = run["records"] + float(str(options.get("warmup", 0)))
        run["broker_cpu_seconds"] = broker.cpu_seconds() - cpu
        run["broker_cpu_per_million"] = run["broker_cpu_seconds"] / moved * 1e6
        run["broker_resident_mb"] = broker.resident_mb()
        return run

    def stop(self, *names: str) -> None:
        """Stop those brokers, or every one that was started."""
        for name in names or tuple(self.brokers):
            if name in self.brokers:
                self.brokers.pop(name).stop()


def touch_free_memory() -> None:
    """Let both sides find memory that this machine holds already.

    A virtual machine gives idle memory back to its host, and pays several microseconds for each page that it asks for
    again: whoever ran after the other had deleted its files found warm pages, and the other none. What is given back
    lies in large blocks, and a file's pages are taken from those first; so large pages are what is touched.
    """
    with contextlib.suppress(OSError), mmap.mmap(-1, FREE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def driven(mode: str, **options: object) -> dict[str, float]:
    """What the driver reports, its numbers only."""
    command = [str(driver()), mode, *(f"{name.replace('__', '.')}={value}" for name, value in options.items())]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DRIVER_SECONDS, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: {result.stderr.strip()[-500:]}")
    report = json.loads(result.stdout)
    return {key: float(value) for key, value in report.items() if isinstance(value, int | float)}


def librdkafka() -> Path:
    """The library inside the confluent-kafka wheel, or the system's."""
    for folder in map(Path, sys.path):
        for library in sorted((folder / "confluent_kafka.libs").glob("librdkafka-*.so*")):
            return library
    raise RuntimeError("librdkafka is not here: the confluent-kafka wheel of this platform brings none")


def driver() -> Path:
    """The driver, compiled where it is older than its source."""
    source, target = ROOT / "bench" / "driver.c", ROOT / ".cache" / "bench" / "driver"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return target
    library = librdkafka()
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O2", "-std=gnu11", str(source), "-o", str(target), str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(command, check=True)
    return target


def librdkafka_version() -> str:
    """As the library says at run time."""
    return subprocess.run([str(driver()), "version"], capture_output=True, text=True, check=True).stdout.strip()
