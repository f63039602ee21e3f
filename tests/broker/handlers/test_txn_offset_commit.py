"""The codes that TxnOffsetCommit tells: the answers of coordinators, and errors of the log of offsets."""

from __future__ import annotations

import pytest

from ottla.broker.handlers.txn_offset_commit import _told
from ottla.kernel.errors import ErrorCode

LOADING, NOT_AVAILABLE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
FENCED, STATE, ABORTABLE = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
)


@pytest.mark.parametrize(
    ("said", "at_1", "at_3", "at_4", "at_5"),
    [
        (ErrorCode.PRODUCER_FENCED, FENCED, FENCED, FENCED, FENCED),
        (ErrorCode.TRANSACTION_ABORTABLE, STATE, STATE, ABORTABLE, ABORTABLE),
        (ErrorCode.NETWORK_EXCEPTION, NOT_AVAILABLE, LOADING, LOADING, LOADING),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NOT_AVAILABLE, LOADING, LOADING, LOADING),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, *[NOT_AVAILABLE] * 4),
        (ErrorCode.NOT_COORDINATOR, *[NOT_COORDINATOR] * 4),
        (ErrorCode.CONCURRENT_TRANSACTIONS, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 4),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *[NOT_AVAILABLE] * 4),
        (ErrorCode.NOT_ENOUGH_REPLICAS, *[NOT_AVAILABLE] * 4),
        (ErrorCode.REQUEST_TIMED_OUT, *[NOT_AVAILABLE] * 4),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, *[NOT_COORDINATOR] * 4),
        (ErrorCode.KAFKA_STORAGE_ERROR, *[NOT_COORDINATOR] * 4),
    ],
)
def test_each_version_is_told_a_code_that_it_knows(
    said: ErrorCode, at_1: ErrorCode, at_3: ErrorCode, at_4: ErrorCode, at_5: ErrorCode
):
    assert [_told(said, version) for version in (1, 3, 4, 5)] == [at_1, at_3, at_4, at_5]
