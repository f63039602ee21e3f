"""`ottla transaction`, `ottla features` and Kafka's matching tools, as users run them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from conftest import Ottla, run_ottla

from ottla.cli.kafka import releases
from ottla.client.blocking.producer import Producer
from ottla.cluster.features import FEATURES

NAME = "transaction.version"


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer]:
    """A producer with an open transaction in the only partition of a topic."""
    with Producer(bootstrap, transactional_id=name) as made:
        made.init_transactions()
        made.begin_transaction()
        made.produce(name, "one")
        made.flush()
        yield made


def table(text: str) -> list[list[str]]:
    """Rows of Kafka's padded tables, headings first."""
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in text.splitlines()]


def test_an_open_transaction_is_listed_described_and_aborted(ottla: Ottla, name: str, producer: Producer) -> None:
    (listed,) = [
        each for each in json.loads(ottla("transaction", "list", "--format", "json").stdout) if each["id"] == name
    ]
    assert listed["state"] == "Ongoing"
    assert name in ottla("transaction", "list", "--state", "Ongoing").stdout
    assert name not in ottla("transaction", "list", "--longer-than", "1h").stdout
    (described,) = json.loads(ottla("transaction", "describe", name, "--format", "json").stdout)
    assert (described["state"], described["partitions"], described["open_ms"] >= 0) == ("Ongoing", [f"{name}-0"], True)
    assert f"{name}-0" in ottla("transaction", "describe", name).stdout
    (writer,) = json.loads(ottla("transaction", "producers", f"{name}:0", "--format", "json").stdout)
    assert (writer["producer"], writer["open_from"]) == (described["producer"], 0)
    assert "nothing hangs" in ottla("transaction", "find-hanging", "--topic", name, "--older-than", "0s").stderr
    assert "fenced" in ottla("transaction", "abort", name).stdout
    (described,) = json.loads(ottla("transaction", "describe", name, "--format", "json").stdout)
    assert (described["state"], described["open_ms"]) in (("Empty", None), ("CompleteAbort", described["open_ms"]))


def test_a_transaction_is_ended_in_a_partition_by_where_it_begins(ottla: Ottla, name: str, producer: Producer) -> None:
    wrong = ottla("transaction", "abort", f"{name}:0", "--start-offset", "7")
    assert (wrong.returncode, "begins at offset 7" in wrong.stderr) == (2, True)
    assert ottla("transaction", "abort", f"{name}:0", "--start-offset", "0").returncode == 0
    (writer,) = json.loads(ottla("transaction", "producers", name, "--format", "json").stdout)
    assert writer["open_from"] is None


def test_what_is_not_there_or_not_understood_is_said(ottla: Ottla) -> None:
    missing = ottla("transaction", "describe", "nobody")
    assert (missing.returncode, "'nobody'" in missing.stderr) == (1, True)
    assert "not a duration" in ottla("transaction", "list", "--longer-than", "soon").stderr
    assert "is not a level" in ottla("features", "upgrade", f"{NAME}=two").stderr


def test_features_are_shown_lowered_and_raised(ottla: Ottla) -> None:
    def level() -> int:
        shown = json.loads(ottla("features", "describe", "--format", "json").stdout)
        return next(each["level"] for each in shown if each["feature"] == NAME)

    assert level() == 2
    assert "can go to level 1" in ottla("features", "downgrade", f"{NAME}=1", "--dry-run").stdout
    assert level() == 2
    refused = ottla("features", "upgrade", f"{NAME}=1")
    assert (refused.returncode, "downgrade" in refused.stderr) == (1, True)
    assert "is now at level 1" in ottla("features", "downgrade", f"{NAME}=1").stdout
    assert level() == 1
    assert ottla("features", "upgrade", f"{NAME}=2").returncode == 0
    assert level() == 2
    assert NAME in ottla("features", "describe").stdout


def test_kafka_features_answers_as_kafkas_tool(bootstrap: str) -> None:
    def features(*words: str) -> tuple[int, str, str]:
        done = run_ottla("kafka-features", "--bootstrap-server", bootstrap, *words)
        return done.returncode, done.stdout, done.stderr

    code, said, _ = features("describe")
    assert code == 0 and f"Feature: {NAME:<40}  SupportedMinVersion: 0" in said
    assert features("downgrade", "--feature", f"{NAME}=1", "--dry-run")[1] == f"{NAME} can be downgraded to 1.\n"
    assert features("disable", "--feature", NAME)[1] == f"{NAME} was disabled.\n"
    assert features("upgrade", "--feature", f"{NAME}=2")[1] == f"{NAME} was upgraded to 2.\n"
    code, said, wrong = features("upgrade", "--feature", f"{NAME}=9", "--feature", "x.y=1")
    assert (code, wrong) == (1, "2 out of 2 operation(s) failed.\n")
    assert said.startswith(f"Could not upgrade {NAME} to 9. The update failed for all features since")
    assert features("upgrade")[2] == "You must specify at least one feature to upgrade\n"
    assert "equals sign not found" in features("upgrade", "--feature", "x")[2]
    assert "invalid choice: 'nope'" in features("nope")[2]


def test_kafka_features_sets_the_levels_of_a_release(bootstrap: str) -> None:
    def features(*words: str) -> tuple[int, str, str]:
        done = run_ottla("kafka-features", "--bootstrap-server", bootstrap, *words)
        return done.returncode, done.stdout, done.stderr

    code, said, _ = features("downgrade", "--release-version", "3.9", "--dry-run")
    assert (code, said) == (0, "group.version can be downgraded to 0.\ntransaction.version can be downgraded to 0.\n")
    code, said, _ = features("upgrade", "--release-version", "4.0-IV1")
    assert (code, said) == (0, "group.version was upgraded to 1.\n"), "transaction.version has no level there"
    code, said, _ = features("upgrade", "--release-version", "3.9")
    assert code == 0 and said.startswith("Nothing to upgrade: ")
    assert features("upgrade", "--release-version", "4.9")[2].startswith("Unknown metadata.version '4.9'. Supported")
    refused = (1, "", "Can not specify `release-version` with other feature flags.\n")
    assert features("upgrade", "--release-version", "4.0", "--feature", f"{NAME}=2") == refused


def test_kafka_features_looks_up_releases_without_a_broker() -> None:
    """The expected lines are those of Apache Kafka 4.3.1's own tool, without the features that ottla does not have."""

    def features(*words: str) -> tuple[int, str]:
        done = run_ottla("kafka-features", *words)
        return done.returncode, done.stdout or done.stderr

    def mapping(release: str) -> str:
        return features("version-mapping", "--release-version", release)[1]

    latest = "metadata.version=30 (4.3-IV0)\ntransaction.version=2\ngroup.version=1\n"
    assert features("version-mapping") == (0, latest)
    assert mapping("3.7") == "metadata.version=19 (3.7)\ntransaction.version=0\ngroup.version=0\n"
    assert mapping("4.0-IV1") == "metadata.version=23 (4.0-IV1)\ntransaction.version=0\ngroup.version=1\n"
    assert mapping("4.0.0") == "metadata.version=25 (4.0.0)\ntransaction.version=2\ngroup.version=1\n"
    assert mapping("4.4-IV0").startswith("metadata.version=31 (4.4-IV0)\n")
    assert mapping("4.4").startswith("Unknown metadata.version '4.4'. Supported metadata.version are: 3.3-IV3, 3.4-IV0")

    def dependencies(*wanted: str) -> tuple[int, str]:
        return features("feature-dependencies", *(word for each in wanted for word in ("--feature", each)))

    both = "transaction.version=2 has no dependencies.\ngroup.version=1 has no dependencies.\n"
    assert dependencies("transaction.version=2", "group.version=1") == (0, both)
    assert dependencies("metadata.version=25") == (0, "metadata.version=25 (4.0-IV3) has no dependencies.\n")
    assert dependencies("metadata.version=6") == (1, "Unknown metadata.version 6\n")
    assert dependencies("transaction.version=3") == (1, "No feature:transaction.version with feature level 3\n")
    assert dependencies("foo=1") == (1, "Unknown feature: foo\n")
    assert "argument --feature is required" in dependencies()[1]


def test_every_feature_of_the_cluster_has_a_level_in_releases() -> None:
    assert {name: level for name, (level, _) in releases.FEATURES.items()} == {
        feature.name: feature.latest for feature in FEATURES.values()
    }


def test_kafka_transactions_answers_as_kafkas_tool(bootstrap: str, name: str, producer: Producer) -> None:
    def transactions(*words: str) -> tuple[int, str, str]:
        done = run_ottla("kafka-transactions", "--bootstrap-server", bootstrap, *words)
        return done.returncode, done.stdout, done.stderr

    headings, *rows = table(transactions("list")[1])
    assert headings == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    (row,) = [row for row in rows if row[0] == name]
    producer_id = row[2]
    headings, row = table(transactions("describe", "--transactional-id", name)[1])
    assert (row[1], row[2], row[4], row[-1]) == (name, producer_id, "Ongoing", f"{name}-0")
    where = ("--topic", name, "--partition", "0")
    headings, row = table(transactions("describe-producers", *where)[1])
    assert (row[0], row[-1]) == (producer_id, "0")
    assert len(table(transactions("find-hanging", *where, "--max-transaction-timeout", "0")[1])) == 1
    assert transactions("abort", *where, "--start-offset", "0") == (0, "", "")
    assert table(transactions("describe-producers", *where)[1])[1][-1] == "None"
    assert transactions("forceTerminateTransaction", "--transactionalId", name)[0] == 0
    code, _, wrong = transactions("describe", "--transactional-id", "nobody")
    assert (code, "failed because the ID could not be found. Enable debug" in wrong) == (1, True)
    assert "requires either --topic or --broker-id" in transactions("find-hanging")[2]
    assert "argument --topic is required" in transactions("abort", "--partition", "0")[2]


@pytest.mark.parametrize("tool", ["kafka-features", "kafka-transactions"])
def test_help_says_what_there_is(tool: str) -> None:
    for words in (["--help"], ["describe", "--help"]):
        assert "Option" in run_ottla(tool, *words).stdout


def test_the_help_of_kafka_features_lists_its_subcommands() -> None:
    said = run_ottla("kafka-features", "--help").stdout
    for subcommand in ("describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies"):
        assert f"\n    {subcommand}" in said


def test_records_are_produced_all_or_none(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    assert "wrote 2 records" in ottla("produce", name, "a", "b", "--transactional-id", name).stderr
    lines = '{"value": "c"}\nnot json\n'
    wrong = ottla("produce", name, "--transactional-id", name, "--input", "json", stdin=lines)
    assert wrong.returncode == 1 and "are written" not in wrong.stderr
    assert "wrote 1 record to" in ottla("produce", name, "d", "--transactional-id", name).stderr
    read = ("consume", name, "--from", "beginning", "-e")
    assert ottla(*read, "--committed").stdout.split() == ["a", "b", "d"]


def test_the_performance_tool_sends_in_transactions(bootstrap: str, name: str) -> None:
    at = ("--bootstrap-server", bootstrap, "--topic", name, "--record-size", "20", "--throughput", "2000")
    done = run_ottla(
        "kafka-producer-perf-test", *at, "--num-records", "600", "--transactional-id", name,
        "--transaction-duration-ms", "50",
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("600 records sent")
    _, row = table(
        run_ottla("kafka-transactions", "--bootstrap-server", bootstrap, "describe", "--transactional-id", name).stdout
    )
    assert row[4] in ("CompleteCommit", "PrepareCommit") and int(row[3]) > 1, "an epoch for each transaction"
    unnamed = run_ottla("kafka-producer-perf-test", *at, "--num-records", "5", "--transaction-duration-ms", "50")
    assert unnamed.returncode == 0
    wrong = run_ottla("kafka-producer-perf-test", *at, "--num-records", "5", "--transaction-duration-ms", "0")
    assert "greater than zero" in wrong.stderr


def test_an_id_that_nobody_has_used_is_not_made_by_aborting_it(ottla: Ottla, name: str) -> None:
    done = ottla("transaction", "abort", name)
    assert (done.returncode, "TRANSACTIONAL_ID_NOT_FOUND" in done.stderr) == (1, True), done.stderr
    done = ottla("transaction", "abort", f"{name}:0")
    assert (done.returncode, "--start-offset" in done.stderr.splitlines()[0]) == (2, True), done.stderr
    assert name not in ottla("transaction", "list").stdout
