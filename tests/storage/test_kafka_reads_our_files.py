"""Apache Kafka's DumpLogSegments reads all our files without complaints, and our own tool prints the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from log_desk import T0, a_batch, a_log, put, roll_and_commit

from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record
from ottla.storage import checkpoint
from ottla.storage.disk.local import LocalDisk
from ottla.storage.log import Log
from ottla.storage.maintenance import cleaning
from ottla.storage.maintenance.compaction import install, plan_compaction
from ottla.storage.maintenance.dump import Complaint, DumpOptions, dump_file
from ottla.storage.values import Origin

JARS = os.environ.get("OTTLA_KAFKA_JARS", "./.cache/kafka/libs")
NOISE = ("SLF4J:", "WARNING:")
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)

pytestmark = pytest.mark.kafka


def kafka_dump(directory: Path, names: list[str], *flags: str) -> tuple[list[str], list[str]]:
    """The lines that Kafka's tool prints, and its complaints."""
    command = ["java", "-cp", f"{os.path.abspath(JARS)}/*", "org.apache.kafka.tools.DumpLogSegments"]
    ran = subprocess.run(
        [*command, *flags, "--files", ",".join(names)], cwd=directory, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    complaints = [line for line in ran.stderr.splitlines() if not line.startswith(NOISE)]
    return ran.stdout.splitlines(), complaints


def our_dump(directory: Path, names: list[str], options: DumpOptions) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    complaints: list[str] = []
    for name in names:
        for line in dump_file(LocalDisk(), f"{directory}/{name}", options):
            (complaints if isinstance(line, Complaint) else lines).append(line.replace(f"{directory}/", ""))
    return lines, complaints


def files_of(directory: Path) -> list[str]:
    wanted = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return sorted(name for name in os.listdir(directory) if name.endswith(wanted))


def a_full_log(directory: Path) -> Log:
    """Several segments with every codec, idempotent producers, an aborted and an open transaction, LogAppendTime."""
    log = a_log(
        LocalDisk(),
        directory=str(directory),
        internal_segment_bytes=6000,
        index_interval_bytes=300,
        cleanup_policy=("compact",),
        min_cleanable_dirty_ratio=0.0,
    )
    for at in range(150):
        records = [Record(row, T0 + at * 10 - row, b"k%d" % (at % 9), b"v%d" % at * 10) for row in range(3)]
        records[1] = records[1]._replace(headers=(("h", b"x"), ("g", None)))
        body = build_batch(
            records, producer_id=5, producer_epoch=0, base_sequence=at * 3, codec=CODECS[at % len(CODECS)]
        )
        put(log, Batch(body), leader_epoch=at // 50)
        if at in (20, 100):
            put(
                log,
                a_batch(b"x", key=b"tx", producer_id=6, sequence=at // 100, transactional=True),
                leader_epoch=at // 50,
            )
            marker = build_marker(
                (Marker.COMMIT if at == 20 else Marker.ABORT),
                producer_id=6,
                producer_epoch=0,
                coordinator_epoch=3,
                timestamp=T0,
            )
            put(log, Batch(marker), leader_epoch=at // 50, origin=Origin.COORDINATOR)
        if at == 120:
            log.update_config(log.config.replace(message_timestamp_type="LogAppendTime"))
        if at == 130:
            log.update_config(log.config.replace(message_timestamp_type="CreateTime"))
    put(log, a_batch(b"", producer_id=7, sequence=0, transactional=True), leader_epoch=2)
    put(log, Batch(build_batch([Record(0, T0, b"k1", None)])), leader_epoch=2)
    return log


def offsets_in(lines: list[str]) -> list[int]:
    return [int(line.split(" ")[2]) for line in lines if line.startswith("| offset: ")]


def test_kafka_reads_rolled_segments_their_indexes_and_snapshots_without_complaint(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = a_full_log(directory)
    end, segments = log.end_offset, log.segments_count
    log.close(clean=True)
    names = files_of(directory)
    assert segments >= 4 and any(name.endswith(".txnindex") for name in names)
    lines, complaints = kafka_dump(directory, names)
    assert complaints == []
    assert "isvalid: false" not in "\n".join(lines)
    assert (lines, complaints) == our_dump(directory, names, DumpOptions())
    deep, _ = kafka_dump(directory, names, "--print-data-log")
    assert offsets_in(deep) == list(range(end))
    assert deep == our_dump(directory, names, DumpOptions(print_data=True))[0]


def test_kafka_finds_our_indexes_sane(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    a_full_log(directory).close(clean=True)
    indexes = [name for name in files_of(directory) if name.endswith("index") and "txn" not in name]
    for flag, options in (
        ("--index-sanity-check", DumpOptions(index_sanity_check=True)),
        ("--verify-index-only", DumpOptions(verify_index_only=True)),
    ):
        lines, complaints = kafka_dump(directory, indexes, flag)
        assert (lines, complaints) == our_dump(directory, indexes, options)
        assert complaints == []


def test_kafka_reads_compacted_segments_without_complaint(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = a_full_log(directory)
    put(
        log,
        Batch(build_marker(Marker.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=3, timestamp=T0)),
        leader_epoch=2,
        origin=Origin.COORDINATOR,
    )
    roll_and_commit(log)
    kept: set[int] = set()
    cleaned_to = None
    for now_ms in (T0, T0 + 86_400_001):
        plan = plan_compaction(log, cleaned_to=cleaned_to, now_ms=now_ms)
        assert plan is not None
        result = cleaning.run(log.disk, plan)
        assert install(log, plan, result)
        names = files_of(directory)
        lines, complaints = kafka_dump(directory, names)
        assert complaints == []
        assert lines == our_dump(directory, names, DumpOptions())[0]
        kept = set(offsets_in(kafka_dump(directory, names, "--deep-iteration")[0]))
        put(log, Batch(build_batch([Record(0, T0, b"k8", b"new")])), leader_epoch=2)
        roll_and_commit(log)
        cleaned_to = result.cleaned_to
    assert len(kept) < 30
    log.close(clean=True)


def test_kafka_reads_a_recovered_log_without_complaint(tmp_path: Path) -> None:
    from log_desk import reopened

    directory = tmp_path / "t-0"
    log = a_full_log(directory)
    end = log.end_offset
    log.close(clean=False)
    last = max(name for name in files_of(directory) if name.endswith(".log"))
    with open(directory / last, "r+b") as file:
        file.truncate(os.path.getsize(directory / last) - 1)
    again = reopened(log)
    assert again.end_offset == end - 1
    again.close(clean=True)
    names = files_of(directory)
    lines, complaints = kafka_dump(directory, names, "--print-data-log")
    assert [line for line in complaints if "is followed by" in line and not line.startswith("  -1 ")] == []
    assert offsets_in(lines) == list(range(end - 1))
    assert lines == our_dump(directory, names, DumpOptions(print_data=True))[0]


READ = """
import java.io.File;
import java.util.TreeMap;
import org.apache.kafka.storage.internals.checkpoint.*;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

public class Read {
  public static void main(String[] a) throws Exception {
    var channel = new LogDirFailureChannel(1);
    var offsets = new TreeMap<String, Long>();
    var read = new OffsetCheckpointFile(new File(a[0]), channel).read();
    read.forEach((place, offset) -> offsets.put(place.toString(), offset));
    System.out.println(offsets);
    System.out.println(new LeaderEpochCheckpointFile(new File(a[1], "leader-epoch-checkpoint"), channel).read());
    System.out.println(new PartitionMetadataFile(new File(a[1], "partition.metadata"), channel).read().topicId());
  }
}
"""


def test_kafkas_own_readers_do_not_see_the_checksums_of_checkpoints(tmp_path: Path) -> None:
    disk = LocalDisk()
    checkpoint.write_offsets(
        disk, f"{tmp_path}/offsets", {TopicPartition("t", 0): 5, TopicPartition("a-b", 3): 77}, copied=True
    )
    checkpoint.write_epochs(disk, f"{tmp_path}/leader-epoch-checkpoint", [(1, 2), (4, 10)])
    checkpoint.write_partition_metadata(disk, str(tmp_path), bytes(range(16)), TopicPartition("a-b", 3))
    for name in ("offsets", "leader-epoch-checkpoint"):
        assert (tmp_path / name).read_bytes().rstrip(b"\n").endswith((b" ", b"\t"))
    source = tmp_path / "Read.java"
    source.write_text(READ)
    command = ["java", "-cp", f"{os.path.abspath(JARS)}/*", str(source), f"{tmp_path}/offsets", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    offsets, epochs, topic_id = ran.stdout.splitlines()
    assert offsets == "{a-b-3=77, t-0=5}"
    assert epochs == "[EpochEntry[epoch=1, startOffset=2], EpochEntry[epoch=4, startOffset=10]]"
    assert topic_id == "AAECAwQFBgcICQoLDA0ODw"
