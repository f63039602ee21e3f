"""Transactions of both versions on three brokers in virtual time: visibility, fencing, refusals, failovers."""

from __future__ import annotations

import pytest
from transactional import OK, Producer, Scene, ready

from ottla.client.core.link import api_versions_request
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.messages.describe_transactions import DescribeTransactionsRequest
from ottla.messages.end_txn import EndTxnRequest
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.list_transactions import ListTransactionsRequest
from ottla.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

BOTH = pytest.mark.parametrize("version", [1, 2])


@BOTH
def test_committed_records_are_read_and_aborted_ones_are_not(version: int):
    scene = Scene()
    producer = ready(scene, version=version)
    for number, commit in enumerate([True, False, True]):
        for partition in range(3):
            assert producer.send(partition, f"{number}a", f"{number}b") == OK
        assert producer.end(commit=commit) == OK
    scene.loop.run_for(1_000)
    for partition in range(3):
        assert scene.read(partition) == ["0a", "0b", "2a", "2b"]
        assert scene.read(partition, committed=False) == ["0a", "0b", "1a", "1b", "2a", "2b"]
        assert scene.end_offset(partition, committed=True) == scene.end_offset(partition, committed=False) == 9


@BOTH
def test_an_open_transaction_holds_readers_of_committed_records_back(version: int):
    scene = Scene()
    first, second = (ready(scene, name, version=version) for name in ("one", "two"))
    assert first.send(0, "open") == OK
    assert second.send(0, "behind") == OK
    assert second.end(commit=True) == OK
    scene.loop.run_for(1_000)
    assert scene.read() == [] and scene.end_offset(committed=True) == 0
    assert first.end(commit=False) == OK
    scene.loop.run_for(1_000)
    assert scene.read() == ["behind"]


@pytest.mark.parametrize(("most", "error"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)])
def test_records_of_a_partition_that_was_not_added_are_refused(most: int, error: ErrorCode):
    scene = Scene()
    producer = ready(scene, version=1)
    assert producer.add(1) == OK
    assert producer.produce(0, "not added", most=most) == error
    assert producer.produce(1, "added", most=most) == OK
    assert producer.end(commit=True) == OK
    scene.loop.run_for(500)
    assert scene.read(0) == [] and scene.read(1) == ["added"]


@BOTH
def test_the_next_transaction_waits_for_the_markers_of_the_one_before_instead_of_being_refused(version: int):
    scene = Scene()
    producer = ready(scene, version=version)
    assert producer.send(0, "first") == OK
    assert producer.end(commit=True) == OK
    assert transaction_state(scene) == "PrepareCommit", "its markers are on their way"
    before_ms = scene.loop.mono_ms()
    if version == 1:
        assert producer.add(1, again=False) == OK
    else:
        assert producer.produce(1, "second", again=False) == OK
    assert scene.loop.mono_ms() - before_ms < 20, "nobody rested and came again"
    assert transaction_state(scene) == "Ongoing"


def test_the_next_transaction_is_refused_where_the_markers_of_the_one_before_take_long():
    scene = Scene()
    producer = ready(scene, version=1)
    assert producer.send(0, "first") == OK
    assert producer.end(commit=True) == OK
    for machine in scene.machines.values():
        machine.set_sync_us((400_000, 400_000))
    before_ms = scene.loop.mono_ms()
    assert producer.add(1, again=False) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert 20 <= scene.loop.mono_ms() - before_ms < 100
    assert producer.add(1) == OK, "once they are written"


def transaction_state(scene: Scene) -> str:
    described = scene.ask(scene.coordinator("tx", 1), DescribeTransactionsRequest(transactional_ids=["tx"]))
    return str(described.transaction_states[0].transaction_state)


@pytest.mark.parametrize("most", [4, 5])
def test_a_client_may_add_partitions_in_the_versions_that_brokers_use(most: int):
    scene = Scene()
    producer = ready(scene, version=1)
    assert producer.add_as_brokers_do(0, 2, most=most) == OK
    assert producer.produce(0, "added") == OK
    assert producer.produce(1, "not added") == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.end(commit=True) == OK
    scene.loop.run_for(500)
    assert scene.read(0) == ["added"] and scene.read(1) == []


def test_verification_may_be_turned_off_for_clients_that_add_partitions_themselves():
    scene = Scene(transaction_partition_verification_enable="false")
    producer = ready(scene, version=1)
    assert producer.produce(0, "not added") == OK


@BOTH
def test_the_owner_before_is_fenced_everywhere(version: int):
    scene = Scene()
    zombie = ready(scene, version=version)
    assert zombie.send(0, "zombie") == OK
    owner = ready(scene, version=version)
    assert owner.epoch > zombie.epoch and owner.producer_id == zombie.producer_id
    assert zombie.produce(0, "late") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.produce(1, "late elsewhere") in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)
    assert zombie.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert zombie.send_offset(5) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert owner.send(0, "owner") == OK
    assert owner.end(commit=True) == OK
    scene.loop.run_for(1_000)
    assert scene.read() == ["owner"] and scene.read(1) == []


@BOTH
def test_an_epoch_that_the_coordinator_never_gave_does_not_keep_the_owner_out(version: int):
    scene = Scene()
    owner, stranger = ready(scene, version=version), Producer(scene, "tx", version=version)
    stranger.producer_id, stranger.epoch = owner.producer_id, owner.epoch + 1
    assert stranger.produce(0, "stranger", again=False) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert stranger.send_offset(7) in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert stranger.commit_offset(7) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert owner.send(0, "owner") == OK and owner.send_offset(5) == OK
    assert owner.end(commit=True) == OK
    scene.loop.run_for(1_000)
    assert scene.read() == ["owner"] and scene.committed_offset() == (OK, 5)


def test_old_versions_say_invalid_epoch_for_fenced():
    scene = Scene(1)
    producer = ready(scene, version=1)
    ready(scene, version=1)
    request = EndTxnRequest(transactional_id="tx", committed=True, **producer.producer)
    assert scene.ask(1, request, most=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert scene.ask(1, request, most=2).error_code == ErrorCode.PRODUCER_FENCED


@BOTH
def test_a_transaction_that_is_open_for_too_long_is_aborted(version: int):
    scene = Scene()
    producer = ready(scene, version=version, timeout_ms=5_000)
    assert producer.send(0, "late") == OK
    scene.loop.run_for(20_000)
    assert scene.end_offset(committed=True) == 2 and scene.read() == []
    if version == 1:
        assert producer.end(commit=False) == ErrorCode.PRODUCER_FENCED
    else:
        assert producer.end(commit=False) == OK, "the client recovers"
        assert producer.send(0, "again") == OK
        assert producer.end(commit=True) == OK
        scene.loop.run_for(500)
        assert scene.read() == ["again"]


@BOTH
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_offsets_of_a_group_stand_once_their_transaction_is_committed(version: int, commit: bool):
    scene = Scene()
    producer = ready(scene, version=version)
    assert producer.send_offset(3) == OK
    assert producer.end(commit=True) == OK
    scene.loop.run_for(500)
    assert scene.committed_offset() == (0, 3)
    assert producer.send_offset(7) == OK
    assert scene.committed_offset() == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert scene.committed_offset(stable=False) == (0, 3)
    assert producer.end(commit=commit) == OK
    scene.loop.run_for(500)
    assert scene.committed_offset() == (0, 7 if commit else 3)


@BOTH
def test_a_member_that_is_none_commits_no_offsets(version: int):
    scene = Scene(1)
    producer = ready(scene, version=version)
    assert producer.send_offset(3, generation_id=4, member_id="gone") == ErrorCode.ILLEGAL_GENERATION
    assert producer.send_offset(3) == OK
    assert producer.send_offset(3, generation_id=4, member_id="gone") == ErrorCode.UNKNOWN_MEMBER_ID


@BOTH
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_what_was_answered_comes_true_when_the_coordinator_dies_at_once(version: int, commit: bool):
    scene = Scene()
    producer = ready(scene, version=version)
    for partition in range(3):
        assert producer.send(partition, "x") == OK
    assert producer.send_offset(5) == OK
    assert producer.end(commit=commit) == OK
    scene.kill(scene.coordinator("tx", 1))
    scene.loop.run_for(3_000)
    for partition in range(3):
        assert scene.read(partition) == (["x"] if commit else [])
        assert scene.end_offset(partition, committed=True) == scene.end_offset(partition, committed=False)
    assert scene.committed_offset() == (0, 5 if commit else -1)
    assert producer.send(0, "next") == OK
    assert producer.end(commit=True) == OK


@BOTH
def test_a_transaction_goes_on_over_the_death_of_a_leader(version: int):
    scene = Scene()
    producer = ready(scene, version=version)
    assert producer.send(0, "before") == OK
    scene.kill(scene.leader(TopicPartition("t", 0)))
    assert producer.send(0, "behind") == OK
    assert producer.end(commit=True) == OK
    scene.loop.run_for(3_000)
    assert scene.read() == ["before", "behind"]


@BOTH
def test_a_transaction_goes_on_when_all_brokers_come_up_again(version: int):
    scene = Scene()
    producer = ready(scene, version=version)
    assert producer.send(0, "before") == OK
    for number in list(scene.machines):
        scene.kill(number)
    for number in list(scene.machines):
        scene.machines[number].disk.lose_unsynced()
        scene.start(number)
    assert producer.send(0, "behind") == OK
    assert scene.read() == []
    assert producer.end(commit=True) == OK
    scene.loop.run_for(3_000)
    assert scene.read() == ["before", "behind"]


def test_markers_of_a_topic_that_was_deleted_hold_no_transaction_up():
    scene = Scene()
    producer = ready(scene, version=2)
    assert producer.send(0, "x") == OK
    scene.ask(1, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
    assert producer.end(commit=True) == OK
    scene.loop.run_for(1_000)
    described = scene.ask(scene.coordinator("tx", 1), DescribeTransactionsRequest(transactional_ids=["tx"]))
    assert described.transaction_states[0].transaction_state == "CompleteCommit"


def test_transactions_are_described_and_listed_and_one_that_hangs_can_be_ended():
    scene = Scene(1)
    producer = ready(scene, version=2)
    assert producer.send(0, "x") == OK
    described = scene.ask(1, DescribeTransactionsRequest(transactional_ids=["tx", "none", ""])).transaction_states
    assert [each.error_code for each in described] == [
        OK,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
    ]
    assert (described[0].transaction_state, described[0].topics[0].partitions) == ("Ongoing", [0])
    listed = scene.ask(1, ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"]))
    assert listed.unknown_state_filters == ["Nonsense"]
    assert [each.transactional_id for each in listed.transaction_states] == ["tx"]
    for pattern, ids in (("t.*", ["tx"]), ("t", [])):
        listed = scene.ask(1, ListTransactionsRequest(transactional_id_pattern=pattern))
        assert [each.transactional_id for each in listed.transaction_states] == ids
    pattern = scene.ask(1, ListTransactionsRequest(transactional_id_pattern="(?=t)"))
    assert pattern.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (active,) = scene.ask(1, asked).topics[0].partitions[0].active_producers
    assert (active.producer_id, active.current_txn_start_offset) == (producer.producer_id, 0)
    marker = WritableTxnMarker(
        producer_id=active.producer_id,
        producer_epoch=active.producer_epoch,
        transaction_result=False,
        coordinator_epoch=active.coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9])],
    )
    answer = scene.ask(1, WriteTxnMarkersRequest(markers=[marker]), most=1)
    assert [each.error_code for each in answer.markers[0].topics[0].partitions] == [
        OK,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert scene.end_offset(committed=True) == 2 and scene.read() == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({}, OK),
    ],
)
def test_what_init_producer_id_refuses(asked: dict, error: ErrorCode):
    scene = Scene(1)
    scene.coordinator("tx", 1)
    scene.loop.run_for(500)
    request = InitProducerIdRequest(**({"transactional_id": "tx", "transaction_timeout_ms": 1_000} | asked))
    assert scene.ask(1, request, most=5).error_code == error


def test_clients_are_told_of_transactions_once_every_broker_has_them():
    scene = Scene(1)
    answer = scene.ask(1, ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    (feature,) = [each for each in answer.finalized_features if each.name == "transaction.version"]
    assert (feature.min_version_level, feature.max_version_level) == (2, 2)
    assert answer.finalized_features_epoch >= 0
    assert {24, 25, 26, 27, 28, 65, 66} <= {each.api_key for each in answer.api_keys}
    scene.node(1).metadata.features["metadata.version"] = 2
    answer = scene.ask(1, ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    assert answer.finalized_features == []
    assert not {24, 25, 26, 27, 28, 65, 66} & {each.api_key for each in answer.api_keys}
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1_000)
    assert scene.ask(1, request).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.retriable
    assert Producer(scene, "tx", version=2).produce(0, "x") == ErrorCode.INVALID_TXN_STATE


def test_every_broker_goes_by_the_level_of_transactions_that_was_set_last():
    scene = Scene()
    producer = ready(scene, version=2)
    assert producer.send(0, "before") == OK and producer.end(commit=True) == OK
    coordinator = scene.node(scene.coordinator(producer.transactional_id, 1))
    for level, kind in ((1, 2), (2, 1)):
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
        assert scene.ask(2, UpdateFeaturesRequest(feature_updates=[update])).error_code == OK
        scene.loop.run_for(500)
        for broker in scene.machines:
            answer = scene.ask(broker, api_versions_request())
            (told,) = [each for each in answer.finalized_features if each.name == "transaction.version"]
            assert (told.min_version_level, told.max_version_level) == (level, level)
        (runner,) = coordinator.transactions.runners()
        assert runner.shard.settings.transaction_version == level, "the shard was loaded before"
