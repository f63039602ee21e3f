"""Requests about groups and transactions that no sound client sends: what they get, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest
from transactional import OK, Scene, ready

from ottla.kernel.errors import ErrorCode
from ottla.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-2, 0), (-(2**63), 5), (7, -1), (7, -32768), (-1, -1)])
def test_a_marker_of_no_producer_is_refused_and_not_written(version: int, producer_id: int, epoch: int):
    scene = Scene(1)
    producer = ready(scene, version=2)
    assert producer.send(0, "x") == OK
    end = scene.end_offset(committed=False)
    wrong = _marker(producer_id, epoch)
    answer = scene.ask(1, WriteTxnMarkersRequest(markers=[wrong, _marker(8, 0), wrong]), most=version)
    assert [_codes(each) for each in answer.markers] == [[ErrorCode.INVALID_REQUEST], [OK], [ErrorCode.INVALID_REQUEST]]
    assert scene.end_offset(committed=False) == end + 1, "the marker between them"


def _marker(producer_id: int, epoch: int) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
    )


def _codes(result: Any) -> list[int]:
    return [each.error_code for topic in result.topics for each in topic.partitions]
