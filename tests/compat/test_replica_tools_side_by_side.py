"""The tools for replicas, leaders and brokers beside Kafka's own, on three brokers.

Run against Apache Kafka and against ottla: both tools get the same arguments and must print the same. A command that
changes something is run once by each tool, on equal topics.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_kafka import run_tool
from cluster_processes import until
from ottla_process import run_our_tool
from three_brokers import ApacheCluster, TemporaryCluster, wait_for_brokers

from ottla.client.admin.admin import NewTopic
from ottla.client.admin.replicas import Election
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.kernel.ids import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.compat]

Cluster = ApacheCluster | TemporaryCluster
Done = subprocess.CompletedProcess[str]
PLACED = {"still": {0: [1, 2, 3], 1: [2, 3, 1]}, "pair": {0: [3, 1], 1: [1, 2]}, "alone": {0: [3]}}
LEAST = {"min.insync.replicas": "2"}


@pytest.fixture(scope="module", params=["apache", "ottla"])
def cluster(request: pytest.FixtureRequest, kafka_libs: Path) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_KAFKA_JARS", str(kafka_libs))
        with ApacheCluster() if request.param == "apache" else TemporaryCluster() as running:
            with Admin(running.bootstrap) as admin:
                outcome = admin.create_topics([NewTopic(name, -1, -1, LEAST, PLACED[name]) for name in PLACED])
                assert not [fault for fault in outcome.values() if isinstance(fault, Exception)]
                until(lambda: in_sync(admin, "still") == [3, 3] and in_sync(admin, "pair") == [2, 2])
            yield running


def in_sync(admin: Admin, topic: str) -> list[int]:
    described = admin.describe_topics([topic])[topic]
    if isinstance(described, Exception):
        return []
    return [len(one.isr_nodes) for one in sorted(described.partitions, key=lambda each: each.partition_index)]


def without_trace(text: str) -> str:
    """Text without the stack trace that Java adds to an error."""
    kept = []
    for line in text.splitlines(keepends=True):
        if line.startswith(("\tat ", "Caused by: ", "\t... ")) or re.match(r"(java\.|org\.apache\.)[\w.$]+(:|$)", line):
            continue
        if not line.startswith("SLF4J"):
            kept.append(line)
    return "".join(kept)


def compare(cluster: Cluster, tool: str, *arguments: str, stderr: bool = False, ordered: bool = True) -> str:
    """Compare both tools; return our output. Not `ordered` if Kafka's tool prints in the order of a hash table."""
    words = [word.replace("$B", cluster.bootstrap) for word in arguments]
    theirs, mine = run_tool(tool, words), run_our_tool(tool, words)
    said = [without_trace(each.stdout).rstrip("\n").splitlines() for each in (mine, theirs)]
    if not ordered:
        said = [sorted(lines) for lines in said]
    assert said[0] == said[1]
    assert mine.returncode == theirs.returncode
    if stderr:
        assert mine.stderr.splitlines()[:1] == without_trace(theirs.stderr).splitlines()[:1]
    return mine.stdout


AT = ("--bootstrap-server", "$B")


def written(folder: Path, **content: object) -> str:
    path = folder / "file.json"
    path.write_text(json.dumps({"version": 1, **content}))
    return str(path)


def part(topic: str, partition: int, *replicas: int, **more: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "replicas": list(replicas), **more}


def test_kafka_cluster(cluster: Cluster) -> None:
    assert compare(cluster, "kafka-cluster", "cluster-id", *AT).startswith("Cluster ID: ")
    assert compare(cluster, "kafka-cluster", "list-endpoints", *AT).count("unfenced") == 3
    compare(cluster, "kafka-cluster", "list-endpoints", "-b", "$B", "--include-fenced-brokers")


def test_kafka_cluster_refuses_what_it_cannot_do(cluster: Cluster) -> None:
    for words in (("unregister", *AT, "--id", "99"), ("unregister", *AT), ("nonsense", *AT), ()):
        theirs, mine = (
            tool("kafka-cluster", [word.replace("$B", cluster.bootstrap) for word in words])
            for tool in (run_tool, run_our_tool)
        )
        assert (mine.returncode, mine.stdout) == (theirs.returncode, theirs.stdout)
        if "99" in words:
            assert mine.stderr.splitlines()[0] in theirs.stderr
        else:
            assert mine.stderr.startswith("usage: kafka-cluster")
            assert "usage: kafka-cluster" in theirs.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "--election-type preferred --all-topic-partitions",
        "--election-type PREFERRED --topic still --partition 0",
        "--election-type unclean --topic still --partition 1",
        "--election-type preferred --topic nope --partition 0",
        "--election-type preferred --topic still --partition 9",
        "--election-type preferred",
        "--election-type preferred --topic still",
        "--election-type preferred --partition 0 --all-topic-partitions",
        "--topic still --partition 0",
        "--election-type preferred --topic still --partition 0 --all-topic-partitions",
    ],
)
def test_kafka_leader_election(cluster: Cluster, arguments: str) -> None:
    compare(cluster, "kafka-leader-election", *AT, *arguments.split(), stderr=True)


def test_kafka_leader_election_of_a_file(cluster: Cluster, tmp_path: Path) -> None:
    for partitions in (
        [{"topic": "still", "partition": index} for index in range(2)],
        [{"topic": "still", "partition": 0}, {"topic": "nope", "partition": 0}],
        [{"topic": "still", "partition": 0}] * 2,
    ):
        path = written(tmp_path, partitions=partitions)
        words = ("--election-type", "preferred", "--path-to-json-file", path)
        compare(cluster, "kafka-leader-election", *AT, *words, stderr=True)


@pytest.mark.parametrize(
    "arguments",
    ["--list", "", "--list --verify", "--verify", "--list --timeout 5", "--generate --broker-list 1", "--execute"],
)
def test_kafka_reassign_partitions_reads_its_command_line(cluster: Cluster, arguments: str) -> None:
    compare(cluster, "kafka-reassign-partitions", *AT, *arguments.split(), stderr=True)


def wanted_files() -> dict[str, list[dict[str, object]]]:
    still = [part("still", 0, 1, 2, 3), part("still", 1, 2, 3, 1), part("pair", 0, 3, 1)]
    return {
        "as it is": still,
        "elsewhere": [part("still", 0, 3, 2, 1), part("pair", 0, 2, 1)],
        "unknown": [part("nope", 0, 1), part("still", 0, 1, 2, 3)],
        "in directories": [part("still", 0, 1, 2, 3, log_dirs=["/nowhere", "any", "/elsewhere"])],
        "lengths": [part("still", 0, 1, 2, 3, log_dirs=["any"])],
    }


@pytest.mark.parametrize("action", ["verify", "cancel"])
@pytest.mark.parametrize("name", list(wanted_files()))
def test_kafka_reassign_partitions_on_what_does_not_move(
    cluster: Cluster, tmp_path: Path, name: str, action: str
) -> None:
    path = written(tmp_path, partitions=wanted_files()[name])
    words = (f"--{action}", "--reassignment-json-file", path, "--preserve-throttles")
    compare(cluster, "kafka-reassign-partitions", *AT, *words)


@pytest.mark.parametrize(
    "partitions",
    [
        [part("still", 0, 1, 2, 7)],
        [part("nope", 0, 1, 2)],
        [part("still", 8, 1, 2)],
        [],
        [part("still", 0)],
        [part("still", 0, 1), part("still", 0, 2)],
        [part("still", 0, 1, 1, 2)],
    ],
    ids=["broker", "topic", "partition", "nothing", "no replicas", "twice", "same broker"],
)
def test_kafka_reassign_partitions_executes_no_nonsense(
    cluster: Cluster, tmp_path: Path, partitions: list[dict[str, object]]
) -> None:
    path = written(tmp_path, partitions=partitions)
    compare(cluster, "kafka-reassign-partitions", *AT, "--execute", "--reassignment-json-file", path)
    if partitions != [part("still", 0, 1, 2, 7)]:
        return
    path = written(tmp_path, partitions=[part("pair", 0, 3, 1, 2)])
    words = ("--disallow-replication-factor-change", "--reassignment-json-file", path)
    compare(cluster, "kafka-reassign-partitions", *AT, "--execute", *words)


def test_kafka_reassign_partitions_proposes(cluster: Cluster, tmp_path: Path) -> None:
    """Proposals are random: the current assignment is compared, and each proposal is checked to be complete."""
    path = written(tmp_path, topics=[{"topic": "still"}, {"topic": "pair"}])
    at = ["--bootstrap-server", cluster.bootstrap, "--topics-to-move-json-file", path]
    said = []
    for tool in (run_tool, run_our_tool):
        done = tool("kafka-reassign-partitions", [*at, "--generate", "--broker-list", "1,2,3"])
        assert done.returncode == 0, done.stderr
        now, _, proposed = done.stdout.partition("\n\n")
        said.append(now)
        heading, _, text = proposed.partition("\n")
        assert heading == "Proposed partition reassignment configuration"
        parts = {(one["topic"], one["partition"]): one["replicas"] for one in json.loads(text)["partitions"]}
        assert {(topic, index) for topic, index in parts} == {("still", 0), ("still", 1), ("pair", 0), ("pair", 1)}
        assert all(len(set(replicas)) == len(replicas) for replicas in parts.values())
        assert len({parts["still", index][0] for index in range(2)}) == 2, "leaders are spread"
    assert said[0] == said[1]
    compare(cluster, "kafka-reassign-partitions", *AT, *at[2:], "--generate", "--broker-list", "1,1")


def tools() -> dict[str, object]:
    return {"theirs": run_tool, "ours": run_our_tool}


def moved(admin: Admin, topic: str) -> bool:
    return not admin.list_reassignments([TopicPartition(topic, 0)])


def test_partitions_are_moved_and_moved_back_alike(cluster: Cluster, tmp_path: Path) -> None:
    """Each tool moves a topic of its own, and rolls back by the file that it saved."""
    said: dict[str, list[str]] = {}
    with Admin(cluster.bootstrap) as admin:
        for name, tool in tools().items():
            topic = f"move-{name}"
            admin.create_topics([NewTopic(topic, assignments={0: [1, 2]})])
            until(lambda topic=topic: in_sync(admin, topic) == [2])
            path = written(tmp_path, partitions=[part(topic, 0, 3, 2)])
            at = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file"]
            lines: list[str] = []
            began = tool("kafka-reassign-partitions", [*at, path, "--execute"])
            lines.append(began.stdout)
            saved = tmp_path / "saved.json"
            saved.write_text(next(line for line in began.stdout.splitlines() if line.startswith("{")))
            until(lambda topic=topic: moved(admin, topic))
            lines.append(tool("kafka-reassign-partitions", [*at, path, "--verify"]).stdout)
            lines.append(tool("kafka-reassign-partitions", [*at, str(saved), "--execute"]).stdout)
            until(lambda topic=topic: moved(admin, topic))
            lines.append(tool("kafka-reassign-partitions", [*at, str(saved), "--verify"]).stdout)
            elected = tool(
                "kafka-leader-election", [*at[:2], "--election-type", "preferred", "--topic", topic, "--partition", "0"]
            )
            lines.append(elected.stdout)
            until(lambda topic=topic: in_sync(admin, topic) == [2])
            said[name] = [line.replace(topic, "move") for line in lines]
            described = admin.describe_topics([topic])[topic].partitions[0]
            assert described.replica_nodes == [1, 2]
            assert described.leader_id == 1
    assert said["ours"] == said["theirs"]
    assert "log_dirs" in said["ours"][0]


def test_a_move_that_cannot_end_is_listed_described_and_taken_back_alike(cluster: Cluster, tmp_path: Path) -> None:
    """The move is throttled, so that it lasts long enough to be listed."""
    said: dict[str, list[str]] = {}
    with Admin(cluster.bootstrap) as admin:
        for name, tool in tools().items():
            topic = f"slow-{name}"
            admin.create_topics([NewTopic(topic, assignments={0: [1, 2]})])
            until(lambda topic=topic: in_sync(admin, topic) == [2])
            fill(cluster, topic)
            path = written(tmp_path, partitions=[part(topic, 0, 3, 2)])
            at = ["--bootstrap-server", cluster.bootstrap]
            file = [*at, "--reassignment-json-file", path]
            lines = [tool("kafka-reassign-partitions", [*file, "--execute", "--throttle", "1024"]).stdout]
            for words in (["--list"], ["--verify"], ["--execute"], ["--execute", "--additional", "--throttle", "2048"]):
                each = at if words == ["--list"] else file
                lines.append(tool("kafka-reassign-partitions", [*each, *words]).stdout)
            described = ["--describe", "--topic", topic]
            lines.append(tool("kafka-topics", [*at, *described]).stdout)
            lines.append(tool("kafka-topics", [*at, *described, "--under-replicated-partitions"]).stdout)
            lines.append(
                tool("kafka-configs", [*at, "--describe", "--entity-type", "topics", "--entity-name", topic]).stdout
            )
            lines.append(tool("kafka-reassign-partitions", [*file, "--cancel"]).stdout)
            until(lambda topic=topic: moved(admin, topic))
            lines.append(tool("kafka-reassign-partitions", [*file, "--verify"]).stdout)
            lines.append(
                tool("kafka-configs", [*at, "--describe", "--entity-type", "topics", "--entity-name", topic]).stdout
            )
            said[name] = [re.sub(r"TopicId: \S+", "TopicId: X", line.replace(topic, "slow")) for line in lines]
    assert said["ours"] == said["theirs"]
    assert "adding: 3. removing: 1." in said["ours"][1]
    assert "still in progress" in said["ours"][2]


def fill(cluster: Cluster, topic: str) -> None:
    """Write enough for minutes of throttled fetching: Kafka's throttle lets a fetch of a megabyte pass now and then."""
    with Producer(cluster.bootstrap) as producer:
        for _ in range(60):
            producer.produce(topic, b"x" * 700_000)
        producer.flush(60)


def test_kafka_topics_with_a_broker_down(cluster: Cluster) -> None:
    """This test is the last one: it leaves two brokers."""
    with Admin(cluster.bootstrap) as admin:
        admin.elect_leaders(Election.PREFERRED)
        cluster.kill(3)
        wait_for_brokers(cluster.bootstrap, 2)
        until(lambda: in_sync(admin, "still") == [2, 2] and in_sync(admin, "pair") == [1, 2])
    all_of_them = (*AT, "--describe", "--topic", "still|pair|alone")
    for only in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        assert compare(cluster, "kafka-topics", *all_of_them, f"--{only}-partitions", ordered=False)
    compare(cluster, "kafka-topics", *all_of_them, ordered=False)
    compare(cluster, "kafka-cluster", "list-endpoints", *AT, "--include-fenced-brokers")
    compare(
        cluster, "kafka-leader-election", *AT, "--election-type", "preferred", "--topic", "alone", "--partition", "0"
    )
    compare(cluster, "kafka-leader-election", *AT, "--election-type", "unclean", "--topic", "alone", "--partition", "0")
