"""`kafka-transactions` and `kafka-features` beside Kafka's own, on Apache Kafka and on ottla: the same output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from apache_kafka import ApacheKafka, run_tool
from ottla_process import TemporaryBroker, run_our_tool

from ottla.client.admin.features import UpgradeType
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.client.model import CommittedOffset
from ottla.kernel.ids import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.compat]
FEATURE = "transaction.version"


class Server(NamedTuple):
    bootstrap: str
    is_apache: bool


@pytest.fixture(scope="module", params=["apache", "ottla"])
def server(request: pytest.FixtureRequest, kafka_libs: object) -> Iterator[Server]:
    """A broker with an open, a committed and an aborted transaction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_KAFKA_JARS", str(kafka_libs))
        is_apache = request.param == "apache"
        with (
            ApacheKafka() if is_apache else TemporaryBroker() as process,
            Producer(process.bootstrap, transactional_id="open", transaction_timeout_ms=900_000) as producer,
        ):
            _furnish(process.bootstrap, producer)
            yield Server(process.bootstrap, is_apache)


def _furnish(bootstrap: str, producer: Producer) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic("t", 3, 1)
    for name in ("committed", "aborted"):
        with Producer(bootstrap, transactional_id=name) as other:
            other.init_transactions()
            other.begin_transaction()
            other.produce("t", name, partition=2)
            other.flush()
            (other.commit_transaction if name == "committed" else other.abort_transaction)()
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("t", "open", partition=partition)
    producer.send_offsets({TopicPartition("t", 0): CommittedOffset(1)}, "g")
    producer.flush()


def compare(server: Server, tool: str, *arguments: str, stderr: bool = False) -> str:
    """Run both tools and compare; return our output. Lines may come in any order: Kafka's tool prints hash tables."""
    words = ["--bootstrap-server", server.bootstrap, *arguments]
    theirs, mine = run_tool(tool, words), run_our_tool(tool, words)
    said = [sorted(_still(each.stdout).splitlines()) for each in (mine, theirs)]
    assert said[0] == said[1]
    assert mine.returncode == theirs.returncode
    if stderr:
        wrong = [[line for line in each.stderr.splitlines() if "SLF4J" not in line] for each in (mine, theirs)]
        assert wrong[0][-1:] == wrong[1][-1:]
    return mine.stdout


def _still(text: str) -> str:
    """Blank the duration of open transactions and the epoch: both change between two runs of the tools."""
    return re.sub(r"Epoch: \d+$", "Epoch: -", re.sub(r"(\d{13} *\t)\d+ *\t", r"\1-\t", text), flags=re.MULTILINE)


@pytest.mark.parametrize(
    "arguments",
    [
        "list",
        "list --duration-filter 0",
        "list --duration-filter 3600000",
        "describe --transactional-id open",
        "describe --transactional-id committed",
        "describe --transactional-id aborted",
        "describe --transactional-id nobody",
        "describe-producers --topic t --partition 2",
        "describe-producers --topic t --partition 0 --broker-id 1",
        "find-hanging --topic t --max-transaction-timeout 0",
        "find-hanging --broker-id 1",
        "find-hanging",
        "find-hanging --partition 1",
        "abort --topic t --partition 0",
        "abort --topic t --partition 0 --start-offset 99",
        "abort --topic t --partition 0 --producer-id 1",
    ],
)
def test_kafka_transactions(server: Server, arguments: str) -> None:
    compare(server, "kafka-transactions", *arguments.split(), stderr="nobody" in arguments or "abort" in arguments)


def test_transactions_are_ended_alike(server: Server) -> None:
    for number, tool in enumerate((run_tool, run_our_tool)):
        with Producer(server.bootstrap, transactional_id=f"ended-{number}") as producer:
            producer.init_transactions()
            for ends in ("abort", "forceTerminateTransaction"):
                producer.begin_transaction()
                at = producer.produce("t", "x", partition=1).result(30).offset
                where = ["--topic", "t", "--partition", "1", "--start-offset", str(at)]
                words = where if ends == "abort" else ["--transactionalId", f"ended-{number}"]
                done = tool("kafka-transactions", ["--bootstrap-server", server.bootstrap, ends, *words])
                assert (done.returncode, done.stdout) == (0, "")
                if ends == "abort":
                    producer.abort_transaction()
        compare(server, "kafka-transactions", "describe-producers", "--topic", "t", "--partition", "1")


@pytest.mark.parametrize(
    "arguments",
    [
        "describe",
        "describe --node-id 1",
        f"upgrade --feature {FEATURE}=2 --dry-run",
        f"downgrade --feature {FEATURE}=1 --dry-run",
        f"downgrade --feature {FEATURE}=1 --unsafe --dry-run",
        f"disable --feature {FEATURE} --dry-run",
        f"upgrade --feature {FEATURE}",
        f"upgrade --feature {FEATURE}=x",
        f"upgrade --feature {FEATURE}=1 --feature {FEATURE}=2",
        "upgrade",
        "disable",
        f"upgrade --feature {FEATURE}=1",
        f"upgrade --feature {FEATURE}=-1",
        f"upgrade --feature {FEATURE}=0",
        "upgrade --release-version 9.9",
        f"upgrade --release-version 4.0 --feature {FEATURE}=2",
        "upgrade --metadata 9.9",
        "version-mapping --release-version 4.4",
        f"feature-dependencies --feature {FEATURE}=2 --feature group.version=1 --feature metadata.version=25",
        f"feature-dependencies --feature {FEATURE}=3",
    ],
)
def test_kafka_features(server: Server, arguments: str) -> None:
    compare(server, "kafka-features", *arguments.split(), stderr=True)


def test_features_are_changed_alike(server: Server) -> None:
    with Admin(server.bootstrap) as admin:
        for tool in (run_tool, run_our_tool):
            at = ["--bootstrap-server", server.bootstrap]
            done = tool("kafka-features", [*at, "downgrade", "--feature", f"{FEATURE}=1"])
            assert (done.returncode, done.stdout) == (0, f"{FEATURE} was downgraded to 1.\n")
            assert {each.name: each.finalized for each in admin.describe_features().features}[FEATURE] == 1
            done = tool("kafka-features", [*at, "upgrade", "--feature", f"{FEATURE}=2"])
            assert (done.returncode, done.stdout) == (0, f"{FEATURE} was upgraded to 2.\n")
        assert admin.update_features({FEATURE: 2}, UpgradeType.UPGRADE) == {FEATURE: None}
