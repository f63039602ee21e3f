"""Compares names, types, defaults, synonyms and checks with those of Apache Kafka 4.3.1."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.config.group import GroupConfig
from ottla.config.known import broker_options
from ottla.config.option import ConfigError, Option, OptionStatus
from ottla.config.resolve import Layers, topic_problems
from ottla.config.topic import TopicConfig
from ottla.config.zookeeper import ZookeeperConfig

pytestmark = pytest.mark.kafka

OURS = {
    "broker.host",
    "log.write.caching",
    "ottla.clock.accepted.ms",
    "ottla.scrub.interval.hours",
    "ottla.scrub.max.bytes.per.second",
    "deletion.protection",
    "write.caching",
    "log.stray.retention.ms",
    "zookeeper.digest",
    "ottla.audit.log",
    "ottla.first.users",
    "ottla.http.host",
    "ottla.http.tls",
    "ottla.http.users",
    "ottla.insecure",
}
"""Options that Apache Kafka does not have."""
DYNAMIC_ONLY = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
"""Options that Apache Kafka takes only from dynamic configuration, and declares elsewhere."""
OTHER_DEFAULTS = {
    "broker.session.timeout.ms",
    "listeners",
    "log.dir",
    "node.id",
    "offsets.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
    "replica.fetch.backoff.ms",
}
"""Options with other defaults. Each gives the reason in its documentation, or is an address or a directory."""
NOT_DYNAMIC_HERE = {"config.providers", "listener.security.protocol.map", "listeners"}
REFUSED_HERE = ("preallocate=true", "remote.storage.enable=true", "local.retention.ms=100", "local.retention.bytes=5")
VALUES = (
    "cleanup.policy=", "cleanup.policy=compact", "cleanup.policy=delete,compact", "cleanup.policy=delete,delete",
    "cleanup.policy=foo", "cleanup.policy=delete,", "compression.type=zstd", "compression.type=x",
    "compression.gzip.level=12", "compression.gzip.level=-1", "compression.gzip.level=0", "compression.lz4.level=18",
    "compression.zstd.level=99", "delete.retention.ms=-1", "file.delete.delay.ms=0", "flush.messages=0",
    "flush.ms=-1", "index.interval.bytes=1.5", "index.interval.bytes=0", "max.compaction.lag.ms=0",
    "max.message.bytes=-1", "max.message.bytes=99999999999", "message.timestamp.type=x",
    "message.timestamp.type=LogAppendTime", "message.timestamp.after.max.ms=-1", "min.cleanable.dirty.ratio=abc",
    "min.cleanable.dirty.ratio=0.5", "min.compaction.lag.ms=-1", "min.insync.replicas=0", "min.insync.replicas=2",
    "preallocate=maybe", "preallocate=false", "retention.bytes=-1", "retention.bytes=-7", "retention.ms=-1",
    "retention.ms=-2", "retention.ms=abc", "retention.ms= 5 ", "retention.ms=99999999999999999999", "retention.ms=",
    "segment.bytes=10", "segment.bytes=1048576", "segment.index.bytes=3", "segment.jitter.ms=-1", "segment.ms=0",
    "unclean.leader.election.enable=TRUE", "unclean.leader.election.enable=1", "nope=1",
    *REFUSED_HERE,
)  # fmt: skip


OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
"""Options that Kafka's authorizer reads; its broker does not declare them. Kafka 4 has none for ZooKeeper any more."""


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path) -> list[list[str]]:
    source = Path(__file__).parent / "Options.java"
    ran = subprocess.run(
        ["java", "-cp", f"{kafka_libs}/*", str(source)],
        input="\n".join(VALUES),
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("\t") for line in ran.stdout.splitlines()]


def compared(kafka: list[list[str]], kind: str, ours: dict[str, Option]) -> None:
    theirs = {row[1]: row[2:] for row in kafka if row[0] == kind}
    assert len(theirs) > 10
    assert set(theirs) - set(ours) == set(), "options that are not known here"
    assert set(ours) - set(theirs) <= OURS | DYNAMIC_ONLY | OF_THE_AUTHORIZER | set(ZookeeperConfig.BY_NAME)
    for name, (type_name, default, internal) in theirs.items():
        declared = ours[name]
        assert declared.kind.name == type_name, name
        assert declared.internal == (internal == "true"), name
        told = declared.text(declared.default) or "null"  # an empty list counts as null
        assert name in OTHER_DEFAULTS or told == (default or "null"), name


def test_every_broker_option_is_known_with_its_type_and_default(kafka: list[list[str]]) -> None:
    compared(kafka, "broker", dict(broker_options()))


def test_every_topic_option_is_known_with_its_type_and_default(kafka: list[list[str]]) -> None:
    compared(kafka, "topic", dict(TopicConfig.BY_NAME))


def test_every_group_option_is_known_with_its_type_and_default(kafka: list[list[str]]) -> None:
    compared(kafka, "group", dict(GroupConfig.BY_NAME))


def test_what_can_be_changed_while_the_broker_runs_is_the_same(kafka: list[list[str]]) -> None:
    theirs = {row[1]: row[2] for row in kafka if row[0] == "dynamic"}
    assert len(theirs) > 50
    for name, declared in broker_options().items():
        if name not in OURS | NOT_DYNAMIC_HERE and declared.status is not OptionStatus.REFUSED:
            assert declared.scope.value == theirs.get(name, "read-only"), name


def test_topic_and_group_options_take_their_defaults_from_the_same_broker_options(kafka: list[list[str]]) -> None:
    ours = {**TopicConfig.BY_NAME, **GroupConfig.BY_NAME}
    rows = [row for row in kafka if row[0] == "synonym"]
    assert len(rows) > 40
    for _, name, synonyms in rows:
        assert ",".join(one.name for one in ours[name].synonyms) == synonyms, name


def test_values_are_accepted_and_refused_with_the_same_words(kafka: list[list[str]]) -> None:
    verdicts = {row[1]: row[2] for row in kafka if row[0] == "verdict"}
    assert len(verdicts) == len(set(VALUES))
    for line, theirs in verdicts.items():
        name, _, text = line.partition("=")
        ours = topic_problems({name: text}, Layers())
        if line in REFUSED_HERE:
            assert ours is not None and "not supported here" in ours
        elif theirs == "accepted":
            assert ours is None, line
        else:
            assert ours == theirs, line


def test_every_value_that_kafka_gives_as_a_default_parses(kafka: list[list[str]]) -> None:
    for declared in broker_options().values():
        told = declared.text(declared.default)
        if told is not None:
            try:
                assert declared.parse(told) == declared.default, declared.name
            except ConfigError as fault:
                pytest.fail(str(fault))
