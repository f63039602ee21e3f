"""The judge of the campaign notices every kind of difference, and its kills find open transactions."""

import pytest
from tests.spark.campaign.run import in_transaction
from tests.spark.campaign.verdict import differences

from ottla.client.produce.transacting import Transactor
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.reader import Record

GIVEN = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4")]
RIGHT = [(key, b"seen " + value) for key, value in GIVEN]


def test_the_same_rows_are_no_difference_whatever_the_order_of_keys():
    assert differences(GIVEN, RIGHT) == []
    assert differences(GIVEN, [RIGHT[1], RIGHT[3], RIGHT[0], RIGHT[2]]) == []


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (RIGHT[:3], "1 rows missing"),
        ([*RIGHT, RIGHT[0]], "1 rows there once more than given"),
        ([*RIGHT[:3], (b"b", b"seen 5")], "1 rows missing"),
        ([*RIGHT[:3], RIGHT[0]], "1 rows there once more than given"),
        ([RIGHT[2], RIGHT[1], RIGHT[0], RIGHT[3]], "1 keys have their rows in another order"),
        ([], "4 rows missing"),
    ],
)
def test_every_difference_is_told(found, reason):
    assert any(reason in said for said in differences(GIVEN, found))


def test_a_kill_can_wait_for_an_open_transaction(topics, eventually):
    cluster, place = topics.cluster, TopicPartition(topics.new(), 0)
    transactor = Transactor(cluster.plan, "campaign")
    cluster.run(transactor.init())
    transactor.begin()
    assert not in_transaction(cluster)
    rows = build_batch(
        [Record(0, 0, None, b"a")],
        producer_id=transactor.identity.producer_id,
        producer_epoch=transactor.identity.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    cluster.run(transactor.produce([(place, rows)]))
    assert in_transaction(cluster)
    cluster.run(transactor.abort())
    eventually(lambda: not in_transaction(cluster))
