"""The records of the transaction log: Kafka's bytes, decoded and encoded again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transaction_desk import P0, P1, P2

from ottla.schema.codec import MalformedMessage
from ottla.transactions.entries import decode_entry, encode_entry, tombstone, transaction_entry, transaction_of
from ottla.transactions.values import NEVER_WRITTEN, Transaction, TransactionState

ONGOING = Transaction(
    producer_id=4,
    producer_epoch=2,
    last_epoch=1,
    previous_id=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({P0, P2, P1}),
    updated_ms=1000,
    started_ms=900,
    version=2,
)
INT64, INT16 = st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1)


def test_a_transaction_is_written_as_kafka_writes_version_0():
    key, value = encode_entry(transaction_entry("tx", ONGOING, value_version=0))
    assert key == b"\0\0\0\x02tx"
    assert value == (
        b"\0\0" + (4).to_bytes(8, "big") + b"\0\x02" + (60_000).to_bytes(4, "big") + b"\x01"
        + b"\0\0\0\x02" + b"\0\x01t" + b"\0\0\0\x02" + b"\0\0\0\0" + b"\0\0\0\x01" + b"\0\x01u" + b"\0\0\0\x01\0\0\0\0"
        + (1000).to_bytes(8, "big") + (900).to_bytes(8, "big")
    )  # fmt: skip


def test_version_1_tells_the_producer_before_and_our_own_field_behind_kafkas_tags():
    _, value = encode_entry(transaction_entry("tx", ONGOING, value_version=1))
    assert value is not None and value.startswith(b"\0\x01" + (4).to_bytes(8, "big"))
    assert value.endswith(b"\x03" + b"\0\x08" + (3).to_bytes(8, "big") + b"\x02\x02\0\x02" + b"\x64\x02\0\x01")


def test_an_empty_transaction_has_null_for_its_partitions_and_a_complete_one_an_empty_list():
    for state, written in (
        (TransactionState.EMPTY, b"\xff\xff\xff\xff"),
        (TransactionState.COMPLETE_ABORT, b"\0\0\0\0"),
    ):
        _, value = encode_entry(transaction_entry("tx", Transaction(4, 0, state=state), value_version=0))
        assert value is not None and value[17:21] == written


@given(
    st.builds(
        Transaction,
        producer_id=INT64,
        producer_epoch=INT16,
        last_epoch=INT16,
        previous_id=INT64,
        next_id=INT64,
        timeout_ms=st.integers(1, 2**31 - 1),
        state=st.sampled_from([state for state in TransactionState if state not in NEVER_WRITTEN]),
        partitions=st.frozensets(st.sampled_from([P0, P1, P2])),
        updated_ms=INT64,
        started_ms=INT64,
        version=st.integers(0, 2),
    )
)
def test_version_1_brings_back_all_that_a_transaction_is(transaction):
    entry = transaction_entry("tx", transaction, value_version=1)
    again = decode_entry(*encode_entry(entry))
    assert again == entry and again.value is not None
    if transaction.state == TransactionState.EMPTY:
        assert transaction_of(again.value).partitions == frozenset()
    else:
        assert transaction_of(again.value) == transaction


def test_a_tombstone_comes_back_as_one():
    assert decode_entry(*encode_entry(tombstone("tx"))) == tombstone("tx")


def test_a_key_of_a_newer_version_is_passed_over():
    assert decode_entry(b"\0\x07whatever", b"\0\0") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", None),
        (b"\0\0\0\x02tx", b""),
        (b"\0\0\0\x02tx", b"\0\x02"),
        (b"\0\0\0\x09tx", None),
        (b"\0\0\0\x02tx", b"\0\0" + bytes(14) + b"\x06" + bytes(20)),
        (b"\0\0\0\x02tx", b"\0\0" + bytes(14) + b"\x63" + bytes(20)),
    ],
    ids=["no version", "no value version", "newer value", "cut key", "a status never written", "an unknown status"],
)
def test_what_no_broker_writes_is_malformed(key, value):
    with pytest.raises((MalformedMessage, IndexError)):
        decode_entry(key, value)
