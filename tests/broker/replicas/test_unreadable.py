"""Replicas whose files cannot be opened: each is offline alone, with its reason, and none of its files is deleted."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable

import pytest
from harmed_start import is_in_sync, restart, troubles, with_one_killed
from sim_broker import SimBroker
from two_directories import create, described, held, metric, produce, produce_to_leader

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import topic_id_text
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.sim.disk import SimDisk
from ottla.storage.checkpoint import write_partition_metadata
from ottla.storage.directory.strays import stray_folders, strays

METADATA = "/data/t-0/partition.metadata"
SEGMENT = "/data/t-0/00000000000000000000.log"
DAY_MS = 86_400_000


def put_file(disk: SimDisk, path: str, body: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, [body])
    file.sync()
    file.release()


def become_a_directory(disk: SimDisk, path: str) -> None:
    disk.remove(path)
    disk.make_directory(path)


@pytest.fixture
def broker() -> SimBroker:
    """Two partitions in one directory, with a record in each."""
    broker = SimBroker()
    create(broker)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    return broker


def spoil_identity(disk: SimDisk) -> None:
    for path in (METADATA, METADATA + ".copy"):
        put_file(disk, path, b"\xff" + disk.read(path)[1:])


def lose_identity(disk: SimDisk) -> None:
    for path in (METADATA, METADATA + ".copy"):
        disk.remove(path)


def remove_the_folder(disk: SimDisk) -> None:
    disk.remove_tree("/data/t-0")
    disk.sync_directory("/data")


HARMS: dict[str, Callable[[SimDisk], object]] = {
    "its identity is spoilt": spoil_identity,
    "its identity is missing": lose_identity,
    "its identity is a directory": lambda disk: [
        become_a_directory(disk, path) for path in (METADATA, METADATA + ".copy")
    ],
    "a segment is a directory": lambda disk: become_a_directory(disk, SEGMENT),
    "its folder is gone": remove_the_folder,
    "a segment cannot be read": lambda disk: disk.fail("read", errno.EIO, where=SEGMENT),
}


@pytest.mark.parametrize(
    ("harm", "clean"),
    [(name, clean) for name in HARMS if "identity" in name for clean in (True, False)]
    + [("a segment is a directory", False)],
)
def test_one_bad_file_costs_one_replica_and_the_broker_serves_all_others(
    broker: SimBroker, harm: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        restart(broker, HARMS[harm], clean=clean)
    assert produce(broker, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(broker, 1) == 0
    (said,) = [record.message for record in caplog.records if "t-0 in /data/t-0" in record.message]
    assert "offline" in said
    broker.loop.run_for(60_000)
    assert broker.machine.disk.exists("/data/t-0") and not stray_folders(broker.machine.disk, "/data")
    (trouble,) = troubles(broker)
    assert (trouble["topic"], trouble["partition"], trouble["set_aside"]) == ("t", 0, False)
    assert trouble["reason"] and trouble["reason"] in said
    assert metric(broker, "ottla_replica_trouble") == 1
    assert metric(broker, "kafka_server_replicamanager_offlinereplicacount") == 1
    assert held(described(broker)["/data"]) == [("t", 1)]


def test_a_last_segment_that_is_a_directory_costs_its_records_after_a_clean_stop(broker: SimBroker) -> None:
    restart(broker, HARMS["a segment is a directory"], clean=True)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 2, "no offset is given again"
    (trouble,) = troubles(broker)
    assert trouble["reason"] == "damaged: offsets 0 to 0 are refused"


def test_a_file_that_could_not_be_read_is_served_again_once_it_can_be(broker: SimBroker) -> None:
    restart(broker, HARMS["a segment cannot be read"])
    codes = [produce(broker, index) for index in (0, 1)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    broker.machine.disk.forget_faults()
    broker.restart(clean=True)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 2


def test_a_replica_is_served_again_once_an_administrator_has_written_its_topic_id_down(broker: SimBroker) -> None:
    restart(broker, lose_identity)
    topic = broker.here.node.metadata.topic("t")
    assert topic is not None
    text = f"version: 0\ntopic_id: {topic_id_text(topic.topic_id)}\n"
    restart(broker, lambda disk: put_file(disk, METADATA, text.encode()))
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 2
    assert broker.machine.disk.exists(METADATA + ".copy")


def test_a_full_disk_that_has_no_room_for_a_recovery_costs_one_replica(broker: SimBroker) -> None:
    def harm(disk: SimDisk) -> None:
        disk.remove("/data/t-0/00000000000000000000.index")
        disk.fail("write", errno.ENOSPC, where="/data/t-0/")
        disk.fail("write", errno.ENOSPC, where="/data/t-0/")

    restart(broker, harm, clean=False)
    assert produce(broker, 1) == 0
    assert broker.here.fatal is None
    broker.machine.disk.forget_faults()
    broker.restart(clean=True)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]


def test_a_replica_that_a_crash_kept_from_being_made_is_made_anew(broker: SimBroker) -> None:
    def harm(disk: SimDisk) -> None:
        disk.make_directory("/data/t-7")
        put_file(disk, "/data/t-7/00000000000000000000.log", b"")

    restart(broker, harm)
    broker.loop.run_for(5000)
    assert not broker.machine.disk.exists("/data/t-7") and not stray_folders(broker.machine.disk, "/data")


# --- strays ---


def become_a_stray(broker: SimBroker, caplog: pytest.LogCaptureFixture) -> str:
    """Give the folder an id that no topic has, as after an older metadata store was restored."""
    with caplog.at_level(logging.WARNING):
        restart(broker, lambda disk: write_partition_metadata(disk, "/data/t-0", b"\x07" * 16))
    (folder,) = stray_folders(broker.machine.disk, "/data")
    return folder


def test_a_partition_of_no_known_topic_is_set_aside_with_all_its_records(
    broker: SimBroker, caplog: pytest.LogCaptureFixture
) -> None:
    folder = become_a_stray(broker, caplog)
    assert folder == f"/data/t-0.{'07' * 16}-stray"
    assert any("/data/t-0" in record.message and "set aside" in record.message for record in caplog.records)
    broker.loop.run_for(60_000)
    (one,) = strays(broker.machine.disk, "/data")
    assert (one.topic, one.partition, one.start_offset, one.end_offset) == ("t", 0, 0, 1)
    (trouble,) = [each for each in troubles(broker) if each["set_aside"]]
    assert trouble["path"] == folder
    assert metric(broker, "ottla_stray_folders") == 1
    for _ in range(2):
        broker.restart(clean=True)
    assert stray_folders(broker.machine.disk, "/data") == [folder]


def test_a_stray_is_deleted_after_its_time(broker: SimBroker, caplog: pytest.LogCaptureFixture) -> None:
    folder = become_a_stray(broker, caplog)
    node = broker.here.node
    kept_ms = node.config.log_stray_retention_ms
    assert kept_ms == 7 * DAY_MS
    (directory,) = node.replicas.directories.online
    over_ms = node.around.clock.wall_ms() + kept_ms
    assert directory.deletions.remove_strays(wall_ms=over_ms - 1000, retention_ms=kept_ms) == []
    assert len(directory.deletions.remove_strays(wall_ms=over_ms, retention_ms=kept_ms)) == 1
    node.replicas.removal.later()
    broker.loop.run_for(5000)
    assert not broker.machine.disk.exists(folder)


def test_retention_looks_after_strays(caplog: pytest.LogCaptureFixture) -> None:
    broker = SimBroker(log_stray_retention_ms="60000", log_retention_check_interval_ms="10000")
    create(broker)
    assert produce(broker, 0) == 0
    folder = become_a_stray(broker, caplog)
    broker.loop.run_for(40_000)
    assert broker.machine.disk.exists(folder)
    broker.loop.run_for(60_000)
    assert not broker.machine.disk.exists(folder)
    assert any(folder in record.message and "deleted" in record.message for record in caplog.records)


def test_a_topic_of_the_same_name_does_not_begin_in_the_folder_of_a_replica_that_cannot_be_opened(
    broker: SimBroker,
) -> None:
    restart(broker, spoil_identity)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), most=6)
    create(broker)
    broker.loop.run_for(1000)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 1
    (one,) = strays(broker.machine.disk, "/data")
    assert (one.topic, one.partition, one.end_offset) == ("t", 0, 1)


# --- among others ---


@pytest.mark.parametrize(
    "harm", ["its identity is spoilt", "its identity is missing", "a segment is a directory", "its folder is gone"]
)
def test_a_replica_that_cannot_be_opened_is_fetched_anew_from_another(
    harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    victim = 2
    cluster = with_one_killed(victim)
    disk = cluster.machines[victim].disk
    HARMS[harm](disk)
    with caplog.at_level(logging.WARNING):
        cluster.start(victim)
    assert len([record for record in caplog.records if "t-0 in /data/t-0 " in record.message]) == 1

    def whole() -> bool:
        replica = cluster.node(victim).replicas.by_name.get(("t", 0))
        return replica is not None and replica.log.end_offset == 3 and is_in_sync(cluster, victim)

    cluster.until(whole, 60_000)
    assert len(stray_folders(disk, "/data")) == (harm != "its folder is gone")  # the damaged folder is kept
    for number in (1, 3):
        assert cluster.node(number).replicas.by_name["t", 0].log.end_offset == 3


@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_that_is_gone_is_missed_and_no_offset_is_given_again(
    broker: SimBroker, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker.loop.run_for(60_000)
    with caplog.at_level(logging.WARNING):
        restart(broker, remove_the_folder, clean=clean)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    (said,) = [record.message for record in caplog.records if "/data/t-0 " in record.message]
    assert "offline" in said and "its folder is missing" in said
    broker.loop.run_for(60_000)
    restart(broker, lambda disk: None, clean=clean)  # the entries in the checkpoints are kept
    assert produce(broker, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not broker.machine.disk.exists("/data/t-0")
    (trouble,) = troubles(broker)
    assert (trouble["topic"], trouble["partition"]) == ("t", 0)


def test_a_folder_that_is_gone_is_served_again_once_it_is_put_back(broker: SimBroker) -> None:
    broker.loop.run_for(60_000)
    restart(broker, lambda disk: disk.rename("/data/t-0", "/elsewhere"))
    assert produce(broker, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    restart(broker, lambda disk: disk.rename("/elsewhere", "/data/t-0"))
    assert produce(broker, 0) == 0
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 2


def test_a_topic_that_is_made_again_is_not_missed_for_the_checkpoints_of_the_one_before(broker: SimBroker) -> None:
    broker.loop.run_for(60_000)
    restart(broker, remove_the_folder)
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), most=6)
    create(broker)
    broker.loop.run_for(1000)
    assert produce(broker, 0) == 0
    broker.restart(clean=False)
    assert produce(broker, 0) == 0


def test_a_folder_that_is_gone_while_others_went_on_is_fetched_anew_and_said(caplog: pytest.LogCaptureFixture) -> None:
    """Its broker had left the in-sync set before it came back."""
    victim = 2
    cluster = with_one_killed(victim)
    remove_the_folder(cluster.machines[victim].disk)
    cluster.until(lambda: not is_in_sync(cluster, victim), 60_000)
    with caplog.at_level(logging.WARNING):
        cluster.start(victim)
    (line,) = [record.getMessage() for record in caplog.records if "/data/t-0 " in record.getMessage()]
    assert line == "/data/t-0 is missing, and it held offsets up to 2: it is fetched anew"
    cluster.until(lambda: is_in_sync(cluster, victim), 60_000)
    assert cluster.node(victim).replicas.by_name["t", 0].log.end_offset == 3


# --- without rights ---

FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@pytest.mark.parametrize("error", FORBIDDEN)
@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_that_may_not_be_written_costs_one_replica(broker: SimBroker, error: int, clean: bool) -> None:
    restart(broker, lambda disk: disk.fail("rights", error, where="/data/t-0"), clean=clean)
    assert [produce(broker, index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    broker.loop.run_for(60_000)
    assert broker.here.fatal is None and not broker.machine.disk.to_fail
    (trouble,) = troubles(broker)
    assert (trouble["topic"], trouble["partition"], trouble["path"]) == ("t", 0, "/data/t-0")
    restart(broker, lambda disk: None)
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]
    assert broker.here.node.replicas.by_name["t", 0].log.end_offset == 2


@pytest.mark.parametrize("error", FORBIDDEN)
def test_a_topic_id_that_may_not_be_mended_costs_no_other_replica(broker: SimBroker, error: int) -> None:
    def harm(disk: SimDisk) -> None:
        put_file(disk, METADATA, b"?")
        disk.fail("write", error, where=METADATA)

    restart(broker, harm)
    assert broker.here.fatal is None and not broker.machine.disk.to_fail
    assert [produce(broker, index) for index in (0, 1)] == [0, 0]


def test_an_error_of_rights_in_the_log_directory_itself_fails_it(broker: SimBroker) -> None:
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    broker.machine.disk.fail("remove", errno.EACCES, where="/data/.kafka_cleanshutdown")
    broker.machine.start()
    broker.loop.run_for(5000)
    assert broker.machine.serving is None
    assert broker.machine.current is not None
    assert "simulated failure of remove" in (broker.machine.current.fatal or "")


def test_a_folder_that_cannot_be_renamed_stays_offline_and_the_broker_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A read-only mount can be neither written nor renamed."""
    victim = 2
    cluster = with_one_killed(victim)
    disk = cluster.machines[victim].disk
    disk.fail("rights", errno.EROFS, where="/data/t-0")
    disk.fail("create", errno.EROFS, where="/data/t-0/stray")
    disk.fail("rename", errno.EBUSY, where="-stray", skip=1)  # behind the note that lies beside
    with caplog.at_level(logging.WARNING):
        cluster.start(victim)
        cluster.loop.run_for(30_000)
    current = cluster.machines[victim].current
    assert disk.to_fail == 0 and current is not None and current.fatal is None
    assert disk.exists("/data/t-0") and not any(".note" in name for name in disk.list("/data"))
    said = [record.message for record in caplog.records if "/data/t-0 cannot be set aside" in record.message]
    assert len(said) == 1
    assert ("t", 0) not in cluster.node(victim).replicas.by_name
    assert cluster.node(victim).replicas.by_name["t", 1].log.end_offset == 0
    produce_to_leader(cluster, 0)
