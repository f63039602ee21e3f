"""The parts that every line of the race uses: the driver, the running brokers, a topic of its own, one timed run."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import ROOT, BareBroker, Broker, KafkaBroker, OttlaBroker
from bench.clusters import Cluster, KafkaCluster, OttlaCluster
from bench.queues import ActiveMqBroker, NatsBroker, RabbitBroker
from bench.tls_brokers import KafkaTlsBroker, OttlaTlsBroker

CONTESTANTS: dict[str, type[Broker | Cluster]] = {
    "ottla": OttlaBroker,
    "kafka": KafkaBroker,
    "bare": BareBroker,
    "ottla-cluster": OttlaCluster,
    "kafka-cluster": KafkaCluster,
    "ottla-tls": OttlaTlsBroker,
    "kafka-tls": KafkaTlsBroker,
    "nats": NatsBroker,
    "rabbitmq": RabbitBroker,
    "activemq": ActiveMqBroker,
}
DRIVER_SECONDS = 300
DELETED_WITHIN_S = 60.0
FREE_BYTES = 2 << 30
"""Memory to touch before a run: more than one run writes."""
MADV_POPULATE_WRITE = 23
"""Linux 5.14; Python's `mmap` has no name for it."""


@dataclass
class Rig:
    """Built once per race."""

    folder: Path
    """The folder for the data of both brokers, so that they share a file system."""
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
        """A new broker or cluster that is not started, in a folder of its own."""
        return CONTESTANTS[name](self.folder / f"{name}-{next(self._topics)}")

    def fresh_name(self) -> str:
        """A name for a topic or a queue that no other run has."""
        return f"race-{next(self._topics)}"

    def sized(self, records: int) -> int:
        """The number of records for a run of this length."""
        return max(records // 5, 1) if self.quick else records

    @contextlib.contextmanager
    def topic(self, name: str, partitions: int = 1) -> Iterator[str]:
        """A new topic, deleted afterwards."""
        broker = self.broker(name)
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        topic = self.fresh_name()
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
        self._wait_for_deletions()
        # Otherwise dirty pages of the run before would be written out during this one.
        os.sync()
        touch_free_memory()
        cpu = broker.cpu_seconds()
        run = driven(mode, **broker.client, **options)
        moved = run["records"] + float(str(options.get("warmup", 0)))
        run["broker_cpu_seconds"] = broker.cpu_seconds() - cpu
        run["broker_cpu_per_million"] = run["broker_cpu_seconds"] / moved * 1e6
        run["broker_resident_mb"] = broker.resident_mb()
        return run

    def _wait_for_deletions(self) -> None:
        """Return once the files of deleted topics are gone: a file system that frees them holds up all syncs."""
        end = time.monotonic() + DELETED_WITHIN_S
        while any(folder for broker in self.brokers.values() for folder in broker.folder.rglob("*-delete")):
            if time.monotonic() > end:
                raise RuntimeError("the files of a deleted topic were not deleted in time")
            time.sleep(0.1)

    def forget_pages(self, name: str) -> None:
        """Write out what a broker has written, and let the page cache forget it: its next reader waits for the disk."""
        os.sync()
        for path in self.broker(name).folder.rglob("*"):
            if path.is_file():
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)

    def stop(self, *names: str) -> None:
        """Stop the named brokers, or every one that was started."""
        for name in names or tuple(self.brokers):
            if name in self.brokers:
                self.brokers.pop(name).stop()


def touch_free_memory() -> None:
    """Let both sides find memory that this machine holds already.

    A virtual machine gives idle memory back to its host, and pays several microseconds for each page that it takes
    again: a side that ran after the other had deleted its files found warm pages, and the other side none. Memory is
    given back in large blocks, and a file's pages are taken from those first; so large pages are touched here.
    """
    with contextlib.suppress(OSError), mmap.mmap(-1, FREE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def driven(mode: str, **options: object) -> dict[str, float]:
    """Run the driver; return the numbers of its report."""
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
    """The driver, linked to the library that this environment has; compiled first if it is older than its source."""
    source, library = ROOT / "bench" / "driver.c", librdkafka()
    target = ROOT / ".cache" / "bench" / f"driver-{zlib.crc32(bytes(library)):08x}"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [
        "cc",
        "-O2",
        "-std=gnu11",
        "-pthread",
        str(source),
        "-o",
        str(target),
        str(library),
        f"-Wl,-rpath,{library.parent}",
    ]
    subprocess.run(command, check=True)
    return target


def librdkafka_version() -> str:
    """The version that librdkafka reports at run time."""
    return subprocess.run([str(driver()), "version"], capture_output=True, text=True, check=True).stdout.strip()
