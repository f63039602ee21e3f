"""A log's batches taken in at once make the same shard as one after the other, also where offsets are passed over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinators.replay import ReplayTarget, replay, replay_batch
from ottla.groups.consumer_entries import epoch_entry
from ottla.groups.entries import encode_entry as encode_group_entry
from ottla.groups.entries import group_entry, offset_entry
from ottla.groups.shard import GroupShard
from ottla.groups.values import GroupSettings
from ottla.messages.group_records import GroupMetadataValue, OffsetCommitValue
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record
from ottla.sim.checkers.coordinator_facts import group_facts, transaction_facts
from ottla.transactions.entries import encode_entry as encode_transaction_entry
from ottla.transactions.entries import tombstone, transaction_entry
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import Transaction, TransactionSettings, TransactionState

PLAIN = -1
STATES = [state for state in TransactionState if state < TransactionState.DEAD]
"""Those that a log can hold."""
GROUPS = st.sampled_from(["a", "b"])


def an_offset(group: str, index: int, offset: int | None) -> tuple[bytes, bytes | None]:
    value = None if offset is None else OffsetCommitValue(offset=offset, metadata="", commit_timestamp=offset)
    return encode_group_entry(offset_entry(group, "t", index, value))


OFFSETS = st.builds(an_offset, GROUPS, st.integers(0, 1), st.none() | st.integers(0, 99))
CLASSIC = st.builds(
    lambda group, generation: encode_group_entry(
        group_entry(
            group,
            GroupMetadataValue(protocol_type="consumer", generation=generation, protocol=None, leader=None)
            if generation
            else None,
        )
    ),
    GROUPS,
    st.integers(0, 3),
)
CONSUMERS = st.builds(lambda group, epoch: encode_group_entry(epoch_entry(group, epoch, 0)), GROUPS, st.integers(1, 3))
GROUP_BATCHES = st.lists(
    st.one_of(
        st.tuples(st.just(PLAIN), st.lists(OFFSETS | CLASSIC | CONSUMERS, min_size=1, max_size=4)),
        st.tuples(st.just(PLAIN), st.lists(OFFSETS, min_size=1, max_size=4)),
        st.tuples(st.integers(1, 2), st.lists(OFFSETS, min_size=1, max_size=3)),
        st.tuples(st.integers(1, 2), st.booleans()),
    ),
    max_size=20,
)


def a_transaction(name: str, state: TransactionState | None, epoch: int) -> tuple[bytes, bytes | None]:
    if state is None:
        return encode_transaction_entry(tombstone(name))
    transaction = Transaction(producer_id=7, producer_epoch=epoch, timeout_ms=1000, state=state)
    return encode_transaction_entry(transaction_entry(name, transaction, value_version=1))


TRANSACTION_BATCHES = st.lists(
    st.tuples(
        st.just(PLAIN),
        st.lists(
            st.builds(a_transaction, st.sampled_from("xy"), st.none() | st.sampled_from(STATES), st.integers(0, 5)),
            min_size=1,
            max_size=4,
        ),
    ),
    max_size=20,
)


def a_log(steps: list[tuple[int, Any]], codec: Codec) -> list[Batch]:
    """Batches at consecutive offsets; of a producer with True or False, the marker that commits or aborts."""
    batches: list[Batch] = []
    at = 0
    for producer, content in steps:
        if isinstance(content, bool):
            marker = Marker.COMMIT if content else Marker.ABORT
            body = build_marker(marker, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=0)
            body = at.to_bytes(8, "big") + body[8:]
        else:
            records = [Record(0, 0, key, value) for key, value in content]
            of = {} if producer == PLAIN else {"producer_id": producer, "producer_epoch": 0, "is_transactional": True}
            body = build_batch(records, base_offset=at, codec=codec, **of)
        batches.append(Batch(body))
        at = batches[-1].next_offset
    return batches


def one_by_one(shard: ReplayTarget, batches: list[Batch]) -> None:
    for batch in batches:
        for _ in replay_batch(shard, batch, "log"):
            pass


def at_once(shard: ReplayTarget, batches: list[Batch], offset: int) -> int:
    taking = replay(shard, batches, "log", offset)
    while True:
        try:
            next(taking)
        except StopIteration as ended:
            return int(ended.value)


def a_group_shard() -> GroupShard:
    return GroupShard(GroupSettings(), lambda: "")


@given(GROUP_BATCHES, st.integers(0, 20), st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_groups_and_offsets_are_those_of_the_whole_log(steps: list[Any], cut: int, codec: Codec) -> None:
    batches = a_log(steps, codec)
    whole, in_two = a_group_shard(), a_group_shard()
    one_by_one(whole, batches)
    offset = at_once(in_two, batches[:cut], 0)
    assert at_once(in_two, batches[cut:], offset) == (batches[-1].next_offset if batches else 0)
    assert group_facts(in_two) == group_facts(whole)


@given(TRANSACTION_BATCHES)
def test_transactions_are_those_of_the_whole_log(steps: list[Any]) -> None:
    batches = a_log(steps, Codec.NONE)
    shards = [TransactionShard(TransactionSettings(), lambda: None) for _ in range(2)]
    one_by_one(shards[0], batches)
    at_once(shards[1], batches, 0)
    assert transaction_facts(shards[1]) == transaction_facts(shards[0])


@pytest.mark.parametrize("per_batch", [1, 4])
def test_an_offset_that_later_ones_replace_is_not_even_decoded(per_batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = a_group_shard()
    decoded: list[bytes] = []
    decode = shard.decode
    monkeypatch.setattr(shard, "decode", lambda key, value: decoded.append(key) or decode(key, value))
    offsets = [an_offset("a", number % 2, number) for number in range(40)]
    steps = [(PLAIN, offsets[at : at + per_batch]) for at in range(0, 40, per_batch)]
    assert at_once(shard, a_log(steps, Codec.NONE), 0) == 40
    assert len(decoded) == 2
    assert [each.offset for each in shard.offsets.of("a")["t"].values()] == [38, 39]


def test_the_loop_is_given_back_between_a_few_batches() -> None:
    steps = [(PLAIN, [an_offset("a", 0, number)]) for number in range(1000)]
    assert len(list(replay(a_group_shard(), a_log(steps, Codec.NONE), "log", 0))) >= 20


def test_an_empty_read_stays_where_it_is() -> None:
    assert at_once(a_group_shard(), [], 17) == 17
