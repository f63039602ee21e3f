"""Backups of a broker of the test process, and restores into another."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ottla.backup.manifest import Backup, BackupRefused
from ottla.backup.restore import RestoreReport, WantedRestore, restore_backup
from ottla.backup.store_files import backup_ids, read_backup
from ottla.backup.take import BackupReport, take_backup
from ottla.backup.verify import verify
from ottla.cli.main import main
from ottla.client import Admin, Cluster, CommittedOffset, ConsumedRecord, Producer, TopicPartition
from ottla.client.admin.admin import Resource, ResourceType
from ottla.client.aio import Cluster as AioCluster
from ottla.kernel.quotas import QuotaEntity
from ottla.mirror.policy import NameFilter
from ottla.stores.local import LocalStore
from ottla.testing import TestBroker

T = TypeVar("T")
ALL = NameFilter([".*"], [])
FEW = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
ORDERS = [TopicPartition("orders", number) for number in range(3)]


@pytest.fixture(scope="module")
def source() -> Iterator[TestBroker]:
    with TestBroker(FEW) as broker:
        yield broker


@pytest.fixture
def target() -> Iterator[TestBroker]:
    with TestBroker(FEW) as broker:
        yield broker


def on(broker: TestBroker, work: Callable[[AioCluster], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        async with AioCluster(broker.bootstrap_servers) as cluster:
            return await work(cluster)

    return asyncio.run(run())


class Clock:
    """Times of backups: each is later than the one before."""

    def __init__(self) -> None:
        self.now_ms = int(time.time() * 1000)

    def next_ms(self) -> int:
        self.now_ms += 1_000
        return self.now_ms


CLOCK = Clock()


def taken(broker: TestBroker, store: LocalStore, topics: NameFilter = ALL, keep: int | None = None) -> BackupReport:
    now_ms = CLOCK.next_ms()
    return on(broker, lambda it: take_backup(it, store, topics, now_ms=now_ms, keep=keep, tell=lambda _: None))


def restored(
    broker: TestBroker, store: LocalStore, backup: Backup, tell: Callable[[int], None] = lambda _: None
) -> RestoreReport:
    return on(broker, lambda it: restore_backup(it, store, backup, WantedRestore(ALL), tell=tell))


def committed(broker: TestBroker, topic: str) -> list[ConsumedRecord]:
    return broker.records(topic, isolation_level="read_committed")


def contents(records: list[ConsumedRecord]) -> list[tuple[object, ...]]:
    return [(each.partition, each.timestamp, each.key, each.value, each.headers) for each in records]


def write_orders(broker: TestBroker, first: int, count: int) -> None:
    """Transactions of some records in three partitions; every fourth is aborted."""
    with Producer(broker.bootstrap_servers, transactional_id="orders", compression="zstd") as producer:
        producer.init_transactions()
        for number in range(first, first + count):
            producer.begin_transaction()
            for at in range(1 + number % 7):
                producer.produce("orders", f"{number}-{at}", key=f"{at}", headers=[("n", b"1")], partition=at % 3)
            producer.flush()
            if number % 4 == 3:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def test_a_restore_has_records_groups_configurations_quotas_as_they_were(
    source: TestBroker, target: TestBroker, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "backups")
    with Admin(source.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=3, configs={"retention.ms": "86400000", "cleanup.policy": "compact"})
    write_orders(source, 0, 20)
    first = taken(source, store)
    write_orders(source, 20, 21)
    records = committed(source, "orders")
    with Cluster(source.bootstrap_servers) as cluster:
        for group in range(5):
            places = {each: CommittedOffset(group * 7, f"m{group}") for each in ORDERS}
            cluster.commit_offsets(f"group-{group}", places)
    with Admin(source.bootstrap_servers) as admin:
        admin.alter_quotas(QuotaEntity(client_id="loader"), {"producer_byte_rate": 1e6})
    second = taken(source, store)
    assert 0 < second.new_bytes < first.new_bytes * 2 and not second.whole
    found = verify(store, second.backup, lambda _: None)
    assert not found.faults and found.records >= len(records)

    report = restored(target, store, second.backup)

    assert contents(committed(target, "orders")) == contents(records) and report.records == len(records)
    exact_groups(target, records)
    with Admin(target.bootstrap_servers) as admin:
        assert own_configs(admin, "orders") == {"retention.ms": "86400000", "cleanup.policy": "compact"}
        assert [dict(values) for values in admin.describe_quotas().values()] == [{"producer_byte_rate": 1e6}]
    with pytest.raises(BackupRefused, match=r"not empty: orders-0 has records that this restore has not written"):
        restored(source, store, second.backup)


def own_configs(admin: Admin, topic: str) -> dict[str, str | None]:
    found = admin.describe_configs([Resource(ResourceType.TOPIC, topic)])[Resource(ResourceType.TOPIC, topic)]
    assert not isinstance(found, Exception)
    return {each.name: each.value for each in found if each.config_source == 1}


def exact_groups(target: TestBroker, records: list[ConsumedRecord]) -> None:
    """Every group goes on at the very record: the first committed one that is not before its offset."""
    theirs = committed(target, "orders")
    with Cluster(target.bootstrap_servers) as cluster:
        for group in range(5):
            found = cluster.committed_offsets(f"group-{group}")
            for place in ORDERS:
                before = [each for each in records if each.partition == place.partition and each.offset < group * 7]
                mine = [each for each in theirs if each.partition == place.partition][: len(before)]
                assert found[place] == CommittedOffset(mine[-1].offset + 1 if mine else 0, f"m{group}"), (group, place)


def test_a_restore_that_ends_anywhere_goes_on_and_doubles_nothing(
    source: TestBroker, target: TestBroker, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "backups")
    with Producer(source.bootstrap_servers, linger_ms=0) as producer:
        for number in range(4_000):
            producer.produce("clicks", "x" * 1_000 + str(number), partition=0)
    backup = taken(source, store, NameFilter(["clicks"], [])).backup

    class Killed(Exception):
        pass

    for limit in (1, 2, 3):
        pieces = iter(range(limit))

        def tell(_: int, pieces: Iterator[int] = pieces) -> None:
            if next(pieces, None) is None:
                raise Killed

        with pytest.raises(Killed):
            restored(target, store, backup, tell)
    report = restored(target, store, backup)
    assert report.records == 4_000
    assert contents(committed(target, "clicks")) == contents(committed(source, "clicks"))
    again = restored(target, store, backup)
    assert again.went_on and again.records == 4_000
    assert len(committed(target, "clicks")) == 4_000


class KilledAt(Exception):
    """The process ends here."""


class DyingStore(LocalStore):
    """Ends the process at one of its calls that write."""

    def __init__(self, directory: Path, calls: int) -> None:
        super().__init__(directory)
        self.left = calls

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledAt

    def create(self, name: str, body: bytes) -> bool:
        self._step()
        made = super().create(name, body)
        self._step()
        return made

    def replace(self, name: str, body: bytes) -> None:
        self._step()
        super().replace(name, body)

    def open_output(self, name: str) -> Any:
        output = super().open_output(name)
        output.abandon = lambda: None  # type: ignore[method-assign]  # nothing is tidied up by a process that is killed
        self._step()
        return output

    def remove(self, names: Any) -> None:
        self._step()
        super().remove(names)
        self._step()

    def remove_folder(self, prefix: str) -> None:
        self._step()
        super().remove_folder(prefix)


def test_a_backup_that_is_killed_at_any_step_leaves_the_one_before_whole_and_its_files_are_swept(
    source: TestBroker, tmp_path: Path
) -> None:
    only = NameFilter(["swept-.*"], [])
    store = LocalStore(tmp_path / "backups")
    with Producer(source.bootstrap_servers) as producer:
        for topic in range(3):
            producer.produce(f"swept-{topic}", "first", partition=0)
    last = taken(source, store, only).backup
    step = 0
    while True:
        with Producer(source.bootstrap_servers) as producer:
            for topic in range(3):
                producer.produce(f"swept-{topic}", f"step {step}", partition=0)
        try:
            taken(source, DyingStore(store.directory, step), only, keep=2)
        except KilledAt:
            killed = True
        else:
            killed = False
        assert not verify(store, last, lambda _: None).faults
        if backup_ids(store)[-1] != last.id:
            last = read_backup(store, backup_ids(store)[-1])
            assert not verify(store, last, lambda _: None).faults
        if not killed:
            break
        step += 1
    assert step >= 7
    kept = [read_backup(store, each) for each in backup_ids(store)]
    assert len(kept) == 2
    named = {file.name for backup in kept for file in backup.files()}
    there = {
        path.relative_to(store.directory).as_posix() for path in store.directory.glob("data/**/*") if path.is_file()
    }
    assert there == named


def test_a_transaction_and_the_offset_in_it_are_in_a_backup_whole_or_not_at_all(
    source: TestBroker, tmp_path: Path
) -> None:
    store, only = LocalStore(tmp_path / "backups"), NameFilter(["input", "left", "right"], [])
    with Producer(source.bootstrap_servers) as producer:
        for number in range(20_000):
            producer.produce("input", f"{number}", partition=0)
    ends = threading.Event()

    def copy() -> None:
        with Producer(source.bootstrap_servers, transactional_id="copier", linger_ms=0) as producer:
            producer.init_transactions()
            number = 0
            while not ends.is_set():
                number += 1
                producer.begin_transaction()
                producer.produce("left", f"{number}", partition=0)
                producer.produce("right", f"{number}", partition=0)
                producer.send_offsets({TopicPartition("input", 0): CommittedOffset(number)}, "copiers")
                producer.commit_transaction()

    copier = threading.Thread(target=copy)
    copier.start()
    try:
        source.wait_for(lambda: len(committed(source, "right")) > 50)
        backups = [taken(source, store, only).backup]
        while len(backups) < 3 or not any(backup.torn for backup in backups):
            assert len(backups) < 200
            backups.append(taken(source, store, only).backup)
    finally:
        ends.set()
        copier.join()
    assert not [fault for backup in backups for fault in verify(store, backup, lambda _: None).faults]
    torn = next(backup for backup in backups if backup.torn)
    for backup in {torn.id: torn, backups[-1].id: backups[-1]}.values():
        with TestBroker(FEW) as target:
            restored(target, store, backup)
            left, right = ([each.value for each in committed(target, topic)] for topic in ("left", "right"))
            assert left == right == [f"{number}".encode() for number in range(1, len(left) + 1)]
            with Cluster(target.bootstrap_servers) as cluster:
                assert cluster.committed_offsets("copiers")[TopicPartition("input", 0)].offset == len(left)


def test_a_topic_made_anew_is_copied_as_a_whole_and_one_that_is_deleted_is_not_in_the_next_backup(
    source: TestBroker, tmp_path: Path
) -> None:
    only, store = NameFilter(["anew"], []), LocalStore(tmp_path / "backups")
    with Producer(source.bootstrap_servers) as producer:
        producer.produce("anew", "old", partition=0)
    taken(source, store, only)
    with Admin(source.bootstrap_servers) as admin:
        admin.delete_topics(["anew"])
        admin.create_topic("anew", partitions=1)
    with Producer(source.bootstrap_servers) as producer:
        producer.produce("anew", "new", partition=0)
    second = taken(source, store, only)
    assert second.whole == {TopicPartition("anew", 0): "the topic was made anew"}
    with Admin(source.bootstrap_servers) as admin:
        admin.delete_topics(["anew"])
    assert "anew" not in taken(source, store, only).backup.topics


def test_records_that_were_deleted_at_the_source_are_not_restored(
    source: TestBroker, target: TestBroker, tmp_path: Path
) -> None:
    only, store = NameFilter(["short"], []), LocalStore(tmp_path / "backups")
    with Producer(source.bootstrap_servers) as producer:
        for number in range(10):
            producer.produce("short", f"{number}", partition=0)
    taken(source, store, only)
    with Admin(source.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("short", 0): 6})
    restored(target, store, taken(source, store, only).backup)
    assert [each.value for each in committed(target, "short")] == [b"6", b"7", b"8", b"9"]


def test_a_changed_byte_a_missing_file_and_a_changed_manifest_are_found(source: TestBroker, tmp_path: Path) -> None:
    only, store = NameFilter(["sound"], []), LocalStore(tmp_path / "backups")
    with Producer(source.bootstrap_servers) as producer:
        producer.produce("sound", "value", partition=0)
    backup = taken(source, store, only).backup
    [file] = backup.topics["sound"].partitions[0].files
    path = store.directory / file.name
    sound = path.read_bytes()
    path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert "is damaged" in verify(store, backup, lambda _: None).faults[0]
    path.unlink()
    assert "is missing" in verify(store, backup, lambda _: None).faults[0]
    manifest = store.directory / backup.name
    manifest.write_bytes(manifest.read_bytes().replace(b'"sound"', b'"other"'))
    with pytest.raises(BackupRefused, match="damaged"):
        read_backup(store, backup.id)


def test_a_place_holds_backups_of_one_cluster(source: TestBroker, target: TestBroker, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "backups")
    taken(source, store, NameFilter(["none"], []))
    with pytest.raises(BackupRefused, match="a place of its own"):
        taken(target, store)


def test_the_commands_take_list_verify_and_restore(
    source: TestBroker, target: TestBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Producer(source.bootstrap_servers) as producer:
        producer.produce("spoken", "value", partition=0)
    place, here, there = str(tmp_path / "b"), ["-b", source.bootstrap_servers], ["-b", target.bootstrap_servers]
    assert main(["restore", place, *there]) == 1
    assert f"`ottla backup create {place}` takes one" in capsys.readouterr().err
    assert main(["backup", "create", place, *here, "--topics", "spoken"]) == 0
    assert main(["backup", "create", place, *here, "--topics", "spoken", "--keep", "1"]) == 0
    assert "removed" in capsys.readouterr().out
    assert main(["backup", "list", place, "--format", "json"]) == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert main(["backup", "verify", place]) == 0
    assert capsys.readouterr().out.endswith("all sound\n")
    assert main(["restore", place, *there, "--at", "2001-01-01"]) == 1
    assert "no backup is that old" in capsys.readouterr().err
    assert main(["restore", place, *there, "--replication-factor", "3"]) == 1
    assert "--replication-factor 1" in capsys.readouterr().err
    assert main(["restore", place, *there, "--backup", listed["id"]]) == 0
    assert "1 topic, 1 record" in capsys.readouterr().out
    assert [each.value for each in committed(target, "spoken")] == [b"value"]
