"""Levels of features set through our client, on our broker and on Apache Kafka, and transactions at each level."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from ottla.client.admin.features import UpgradeType
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster, Connection
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings, FetchSettings
from ottla.client.core.link import api_versions_request
from ottla.client.core.plan import parse_bootstrap
from ottla.client.model import CommittedOffset, IsolationLevel
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NAME = "transaction.version"


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    """An admin client; afterwards the feature is set to its latest level again."""
    with Admin(bootstrap) as made:
        yield made
        made.update_features({NAME: 2})
        wait_until_finalized(made, 2)


def wait_until_finalized(admin: Admin, level: int) -> None:
    """Wait for a level: Apache Kafka answers a change before its brokers have applied it."""
    while finalized(admin) != level:
        admin.cluster.refresh()


def finalized(admin: Admin) -> int:
    (found,) = [each for each in admin.describe_features().features if each.name == NAME]
    assert (found.least, found.latest) == (0, 2)
    return found.finalized


def test_a_feature_is_downgraded_and_upgraded(admin: Admin) -> None:
    before = admin.describe_features(min(admin.cluster.brokers())).epoch
    for level, kind in ((1, UpgradeType.SAFE_DOWNGRADE), (0, UpgradeType.UNSAFE_DOWNGRADE), (2, UpgradeType.UPGRADE)):
        assert admin.update_features({NAME: level}, kind) == {NAME: None}
        wait_until_finalized(admin, level)
    assert admin.describe_features().epoch > before


def test_a_dry_run_and_refusals_change_nothing(admin: Admin) -> None:
    assert admin.update_features({NAME: 1}, UpgradeType.SAFE_DOWNGRADE, validate_only=True) == {NAME: None}
    for level, kind in ((1, UpgradeType.UPGRADE), (3, UpgradeType.UPGRADE), (-1, UpgradeType.SAFE_DOWNGRADE)):
        for validate_only in (True, False):
            outcome = admin.update_features({NAME: level}, kind, validate_only=validate_only)[NAME]
            assert isinstance(outcome, ApiError) and outcome.code is ErrorCode.INVALID_UPDATE_VERSION
    unknown = admin.update_features({NAME: 1, "no.feature": 1}, UpgradeType.SAFE_DOWNGRADE)
    assert all(isinstance(outcome, ApiError) for outcome in unknown.values()), "all or none"
    assert finalized(admin) == 2


def test_older_versions_of_the_api_answer_for_each_feature(bootstrap: str, admin: Admin) -> None:
    host, port, _ = parse_bootstrap(bootstrap)[0]
    connection = Connection(host, port)
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=NAME, max_version_level=2)])
    for version in (0, 1):
        answer = connection.request(request, version)
        assert [(each.feature, each.error_code) for each in answer.results] == [(NAME, 0)]
    request.feature_updates[0].max_version_level = 7
    answer = connection.request(request, 1)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert "The update failed for all features" in answer.error_message
    connection.close()


def test_clients_that_cannot_read_level_0_are_told_the_finalized_level_alone(bootstrap: str) -> None:
    host, port, _ = parse_bootstrap(bootstrap)[0]
    connection = Connection(host, port)
    names = []
    for version in (3, 4):
        answer = connection.request(api_versions_request(), version)
        assert NAME in {each.name for each in answer.finalized_features}
        names.append({each.name for each in answer.supported_features if each.min_version == 0})
    connection.close()
    assert not names[0] and NAME in names[1]


def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    settings = ConsumerSettings(
        auto_offset_reset="earliest", fetch=FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)
    )
    with Consumer(bootstrap, consumer=settings) as consumer:
        places = consumer.cluster.partitions(topic)
        consumer.assign(places)
        ends = consumer.cluster.list_offsets(places, -1, IsolationLevel.READ_COMMITTED)
        values: list[bytes | None] = []
        while any(consumer.position(place) < at.offset for place, at in ends.items()):
            values += [record.value for record in consumer.poll(500)]
    return values


@pytest.mark.parametrize("level", [0, 1, 2])
def test_transactions_of_our_client_go_by_the_level_that_is_finalized(
    bootstrap: str, name: str, admin: Admin, level: int
) -> None:
    admin.create_topic(name, 1, 1)
    place = TopicPartition(name, 0)
    if level < 2:
        admin.update_features({NAME: level}, UpgradeType.SAFE_DOWNGRADE)
    wait_until_finalized(admin, level)
    with Producer(bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        first = producer._transactor.identity
        for number in range(4):
            producer.begin_transaction()
            for part in range(3):
                producer.produce(name, f"{number}{part}")
                producer.flush()
            producer.send_offsets({place: CommittedOffset(number)}, name)
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
        last = producer._transactor.identity
    assert producer._transactor.state.version == level
    assert last.producer_epoch - first.producer_epoch == (4 if level == 2 else 0)
    assert committed(bootstrap, name) == [b"00", b"01", b"02", b"20", b"21", b"22"]
    with Cluster(bootstrap) as cluster:
        assert cluster.committed_offsets(name)[place].offset == 2


def test_a_producer_changes_over_between_two_transactions(bootstrap: str, name: str, admin: Admin) -> None:
    admin.create_topic(name, 1, 1)
    admin.update_features({NAME: 1}, UpgradeType.SAFE_DOWNGRADE)
    wait_until_finalized(admin, 1)
    with Producer(bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.produce(name, "old")
        assert producer._transactor.state.version == 1
        admin.update_features({NAME: 2})
        wait_until_finalized(admin, 2)
        producer.cluster.driver.close()  # a new connection learns the new level
        with producer.transaction():
            producer.produce(name, "changing")
        epoch = producer._transactor.identity.producer_epoch
        assert producer._transactor.state.version == 2
        with producer.transaction():
            producer.produce(name, "new")
        assert producer._transactor.identity.producer_epoch == epoch + 1
    assert committed(bootstrap, name) == [b"old", b"changing", b"new"]


def test_librdkafka_commits_at_every_level(bootstrap: str, name: str, admin: Admin) -> None:
    admin.create_topic(name, 1, 1)
    for level in (2, 1, 0):
        if level < 2:
            admin.update_features({NAME: level}, UpgradeType.SAFE_DOWNGRADE)
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(name, str(level).encode())
        producer.commit_transaction(30)
    assert committed(bootstrap, name) == [b"2", b"1", b"0"]
