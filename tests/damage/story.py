"""Writes the known set before each damage, and reads it once to be sure that all of it is there.

Its files are in a folder that each case copies, beside copies from two earlier moments of the story.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import Producer as TransactionalProducer
from tests.damage.brokers import Brokers, until
from tests.damage.reading import SETTINGS, see
from tests.damage.values import CLEAN, OFFSETS_TOPIC, Content, Known, View, Written

from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.model import CommittedOffset
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.reader import Record
from ottla.storage.checkpoint import DAMAGE, TEMPORARY, write_numbers
from ottla.storage.disk.local import LocalDisk

WAIT_S = 60
BEGAN_MS = int(time.time() * 1000) - 3_600_000
"""The first timestamp: recent, since producers are forgotten a day after their last record."""
PLAIN, SMALL = TopicPartition("plain", 0), TopicPartition("plain", 1)
COMPACTED, MOVED, PACKED = TopicPartition("compacted", 0), TopicPartition("moved", 0), TopicPartition("packed", 0)
TRANSACTED = TopicPartition("transacted", 0)
_SMALL_SEGMENTS = {"internal.segment.bytes": "8000", "index.interval.bytes": "500", "retention.ms": "-1"}
CONFIGS: dict[str, dict[str, str]] = {
    "plain": {**_SMALL_SEGMENTS, "max.message.bytes": "65536"},
    "compacted": {**_SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "moved": _SMALL_SEGMENTS,
    "packed": {**_SMALL_SEGMENTS, "internal.segment.bytes": "4000"},
    "transacted": {**_SMALL_SEGMENTS, "internal.segment.bytes": "4000"},
}
GROUPS = ("readers", "writers")


@dataclass
class Producer:
    """One idempotent producer; each batch waits for its acknowledgement."""

    cluster: Cluster
    producer_id: int
    epoch: int
    sequence: int = 0
    written: int = 0
    last: bytes = b""
    last_offset: int = -1

    def send(self, log: TopicPartition, count: int, *, keys: int = 0, codec: Codec = Codec.NONE) -> None:
        """One batch of `count` records; their keys repeat after `keys`."""
        records = [self._record(self.written + number, keys) for number in range(count)]
        self.last = build_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            codec=codec,
        )
        produced = self.cluster.produce(log.topic, log.partition, self.last)
        self.last_offset = produced.base_offset
        self.sequence += count
        self.written += count

    def contents(self, *, keys: int) -> dict[int, Content]:
        """All records ever written, by offset: this producer has written every one."""
        records = {number: self._record(number, keys) for number in range(self.written)}
        return {number: Content(*record[1:]) for number, record in records.items()}

    def _record(self, number: int, keys: int) -> Record:
        key = b"key-%d" % (number % keys if keys else number)
        value = b"value %d " % number + bytes((number * step) % 251 for step in range(1, 101))
        return Record(0, BEGAN_MS + 1000 * number, key, value, (("n", b"%d" % number),))


class Transactions:
    """One transactional producer; every other transaction of eight records is aborted."""

    def __init__(self) -> None:
        self.committed: set[bytes] = set()
        self._begun = 0

    def write(self, bootstrap: str, count: int) -> None:
        producer = TransactionalProducer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
        producer.init_transactions(WAIT_S)
        for _ in range(count):
            producer.begin_transaction()
            values = [b"transaction %d, value %d " % (self._begun, number) + bytes(90) for number in range(8)]
            for value in values:
                producer.produce(TRANSACTED.topic, value, partition=TRANSACTED.partition)
            producer.flush(WAIT_S)
            if self._begun % 2:
                producer.commit_transaction(WAIT_S)
                self.committed.update(values)
            else:
                producer.abort_transaction(WAIT_S)
            self._begun += 1


@dataclass
class Template:
    """The folder that cases copy, and its content."""

    folder: Path
    known: Known
    count: int
    olders: list[Path] = field(default_factory=list)
    """Copies of earlier moments, the newest first."""

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def files(self) -> list[str]:
        """All files of all directories but sockets, relative to the root."""
        found = [path for path in self.root.rglob("*") if not (path.is_dir() or path.is_socket())]
        return [path.relative_to(self.root).as_posix() for path in found]

    def older_than(self, path: str) -> Path | None:
        """The newest earlier version of a file or directory that differs from the last one."""
        now = _bytes_of(self.root / path)
        return next((each / path for each in self.olders if _bytes_of(each / path) not in ({}, now)), None)


def _bytes_of(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {"": path.read_bytes()}
    return {each.relative_to(path).as_posix(): each.read_bytes() for each in path.rglob("*") if each.is_file()}


class CannotPrepare(Exception):
    """The story itself failed, so that no damage can be judged."""


def prepare(folder: Path, count: int, stop: str) -> Template:
    """Write the known set with `count` brokers, and end them."""
    template = Template(folder, Known({}, {}, {}), count)
    template.root.mkdir(parents=True)
    brokers = Brokers(template.root, count)
    brokers.give_ports()
    transactions = Transactions()
    try:
        _start(brokers)
        with Cluster(brokers.bootstrap, settings=SETTINGS) as cluster:
            producers = {
                log: Producer(cluster, *cluster.init_producer_id()) for log in (PLAIN, SMALL, COMPACTED, MOVED)
            }
            _first_half(Admin(cluster=cluster), producers, count)
            transactions.write(brokers.bootstrap, 9)
        _stop(brokers)
        _keep_copy(template)
        _start(brokers)
        with Cluster(brokers.bootstrap, settings=SETTINGS) as cluster:
            _wait_until_whole(cluster, count)
            for producer in producers.values():
                producer.cluster = cluster
            producers[PACKED] = Producer(cluster, *cluster.init_producer_id())
            _second_half(Admin(cluster=cluster), producers, count)
            transactions.write(brokers.bootstrap, 9)
            _wait_until_compacted(template.root, count)
            _keep_copy(template)
            for log, producer in producers.items():
                producer.send(log, 4, keys=7 if log == COMPACTED else 0, codec=_codec(log))
            transactions.write(brokers.bootstrap, 2)
            _commit(cluster, 30)
            _wait_until_compacted(template.root, count)
            template.known = _read_all(brokers.bootstrap, producers, transactions)
            _wait_until_followers_know(template)
        if stop == CLEAN:
            _stop(brokers)
    finally:
        brokers.kill()
    _tidy(template.root)
    _leave_repaired(template.root)
    return template


def _start(brokers: Brokers) -> None:
    started = brokers.start()
    if any(each.value != "ready" for each in started.values()):
        raise CannotPrepare(f"{started}: {[line.text for line in brokers.lines()]}")


def _stop(brokers: Brokers) -> None:
    stopped = brokers.stop()
    if any(stopped.values()):
        raise CannotPrepare(f"the brokers ended with {stopped}: {[line.text for line in brokers.lines()]}")


def _keep_copy(template: Template) -> None:
    place = template.folder / f"older-{len(template.olders)}"
    copy_tree(template.root, place)
    template.olders.insert(0, place)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder without a killed broker's sockets and half-written files, which are there only by chance."""

    def no_part(at: str, names: list[str]) -> list[str]:
        return [name for name in names if name.endswith(TEMPORARY) or (Path(at) / name).is_socket()]

    shutil.copytree(source, target, ignore=no_part)


def _tidy(root: Path) -> None:
    """Remove the brokers' output so far, and files that the kill left half written: they belong to no case."""
    for path in [*root.glob("*.err"), *root.glob("*.out"), *root.rglob(f"*{TEMPORARY}")]:
        path.unlink()


def _leave_repaired(root: Path) -> None:
    """Leave the notes of damage that was repaired: without any damage no broker writes them."""
    for folder in root.glob(f"broker-*/{PLAIN}"):
        write_numbers(LocalDisk(), str(folder / DAMAGE), [])


def _codec(log: TopicPartition) -> Codec:
    return Codec.ZSTD if log == PACKED else Codec.NONE


def _create(admin: Admin, topic: str, partitions: int, count: int) -> None:
    admin.create_topic(topic, partitions, min(count, 3), CONFIGS[topic])


def _first_half(admin: Admin, producers: Mapping[TopicPartition, Producer], count: int) -> None:
    for topic, partitions in (("plain", 2), ("compacted", 1), ("moved", 1), ("transacted", 1)):
        _create(admin, topic, partitions, count)
    _wait_until_whole(admin.cluster, count)
    for log, batches in ((PLAIN, 16), (SMALL, 2), (COMPACTED, 12), (MOVED, 12)):
        for _ in range(batches):
            producers[log].send(log, 8, keys=7 if log == COMPACTED else 0)
    _commit(admin.cluster, 10)
    _commit(admin.cluster, 15)


def _second_half(admin: Admin, producers: Mapping[TopicPartition, Producer], count: int) -> None:
    _create(admin, "packed", 1, count)
    _wait_until_whole(admin.cluster, count)
    for log, batches in ((PLAIN, 14), (SMALL, 1), (COMPACTED, 9), (MOVED, 10), (PACKED, 30)):
        for _ in range(batches):
            producers[log].send(log, 8, keys=7 if log == COMPACTED else 0, codec=_codec(log))
    resource = Resource(ResourceType.TOPIC, "plain")
    changed = admin.alter_configs({resource: [("max.message.bytes", ConfigOperation.SET, "131072")]})
    deleted = admin.delete_records({MOVED: 61})
    if changed[resource] is not None or deleted[MOVED] != 61:
        raise CannotPrepare(f"{changed}, {deleted}")
    _commit(admin.cluster, 20)


def _commit(cluster: Cluster, offset: int) -> None:
    for number, group in enumerate(GROUPS):
        committed = {log: CommittedOffset(offset + number) for log in (PLAIN, SMALL, MOVED)}
        cluster.commit_offsets(group, committed)


def _wait_until_whole(cluster: Cluster, count: int) -> None:
    def whole() -> bool:
        parts = [part for topic in cluster.topics().values() for part in topic.partitions.values()]
        return all(part.leader >= 0 and len(part.isr) == min(count, 3) for part in parts)

    if not until(whole, WAIT_S):
        raise CannotPrepare("the replicas do not come in sync")


def _wait_until_compacted(root: Path, count: int) -> None:
    """Wait until every broker has compacted all closed segments and deleted the replaced ones."""

    def compacted() -> bool:
        for number in range(1, count + 1):
            broker = root / f"broker-{number}"
            active = max(int(path.stem) for path in (broker / "compacted-0").glob("*.log"))
            if _offsets_in(broker / "cleaner-offset-checkpoint").get(COMPACTED) != active:
                return False
        left = (".deleted", ".cleaned", ".swap", ".tmp", "-delete")
        return not any(path.name.endswith(left) for path in root.rglob("*"))

    if not until(compacted, WAIT_S):
        raise CannotPrepare("nothing is compacted")


def _offsets_in(path: Path) -> dict[TopicPartition, int]:
    """The entries of a checkpoint, behind its version and count."""
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def _wait_until_followers_know(template: Template) -> None:
    """Wait until every broker has checkpointed the last high watermark."""

    def noted() -> bool:
        for number in range(1, template.count + 1):
            found = _offsets_in(template.root / f"broker-{number}" / "replication-offset-checkpoint")
            if any(found.get(log) != each.end for log, each in template.known.logs.items()):
                return False
        return True

    if not until(noted, WAIT_S):
        raise CannotPrepare("the high watermarks are not noted down everywhere")


def _read_all(bootstrap: str, producers: Mapping[TopicPartition, Producer], transactions: Transactions) -> Known:
    """Read everything back, and check it against what was acknowledged."""
    offsets = TopicPartition(OFFSETS_TOPIC, 0)
    hints = {log: Written(0, 0, {}, times=_times(producer)) for log, producer in producers.items()}
    configs = {
        topic: {key: values[key] for key in values if not key.startswith("internal.")}
        for topic, values in CONFIGS.items()
    }
    configs["plain"]["max.message.bytes"] = "131072"
    hints[offsets] = hints[TRANSACTED] = Written(0, 0, {})
    committed = {group: dict.fromkeys((PLAIN, SMALL, MOVED), 30 + number) for number, group in enumerate(GROUPS)}
    asked = Known(hints, committed, configs)
    view = see(bootstrap, asked, "before the damage")
    logs = {}
    for log, seen in view.logs.items():
        if seen.error or seen.refused or seen.garbled:
            raise CannotPrepare(f"{log}: {seen.error or seen.refused or seen.garbled}")
        is_compacted = log in (COMPACTED, offsets)
        written = Written(seen.start, seen.visible_to, seen.records, is_compacted, times=seen.times)
        if log in producers:
            _check(log, producers[log], written)
            last = producers[log]
            written = replace(written, last_batch=last.last, last_batch_offset=last.last_offset)
            if is_compacted:
                written = replace(written, earlier=last.contents(keys=7))
        logs[log] = written
    if {content.value for content in logs[TRANSACTED].records.values()} != transactions.committed:
        raise CannotPrepare(f"{TRANSACTED}: a reader of committed records does not see what was committed")
    _check_the_rest(view, asked)
    return replace(asked, logs=logs)


def _times(producer: Producer) -> dict[int, int]:
    """Timestamps to look up, spread over the written records."""
    return {BEGAN_MS + 1000 * (producer.written * part // 6) + 1: -1 for part in range(6)}


def _check(log: TopicPartition, producer: Producer, written: Written) -> None:
    """Check that every acknowledged record was read; in a compacted log, the last of each key."""
    expected = range(written.start, producer.written)
    if log == COMPACTED:
        expected = range(producer.written - 7, producer.written)
    values = {content.value for content in written.records.values()}
    for number in expected:
        if producer._record(number, 0).value not in values:
            raise CannotPrepare(f"{log}: record {number} is not there before anything is damaged")


def _check_the_rest(view: View, asked: Known) -> None:
    if view.offsets != asked.offsets or view.configs != asked.configs:
        said = json.dumps({"configs": view.configs, "offsets": repr(view.offsets)})
        raise CannotPrepare(f"groups or configurations are not as they were set: {said}")
