"""Attempts at a task's rows against a broker, without Spark: repeated, left behind, killed, fenced, unanswered."""

import pyarrow as pa
import pytest
from committed import committed_rows, settled

from ottla.client.errors import ConnectionLost, RequestTimedOut
from ottla.client.model import CommittedOffset
from ottla.client.produce.transacting import Transactor
from ottla.kernel.ids import TopicPartition
from ottla.messages.list_transactions import ListTransactionsRequest
from ottla.spark import once
from ottla.spark.attempt import NotWritten
from ottla.spark.marker import BatchMarker, Content, SparkTask
from ottla.spark.once import write_once
from ottla.spark.options import sink_options
from ottla.spark.sender import TransactionalSender
from ottla.spark.writer import write_batch_of_rows


def batch(values, **columns):
    columns = {"value": pa.array(values, pa.binary()), **columns}
    return pa.RecordBatch.from_pydict(columns)


class Rig:
    """A topic and a query that writes to it."""

    def __init__(self, bootstrap, topics, eventually, partitions=2):
        self.topics, self.bootstrap, self.eventually = topics, bootstrap, eventually
        self.topic = topics.new(partitions)
        self.query = f"q-{self.topic}"

    def options(self, **more):
        given = {name.replace("__", "."): text for name, text in more.items()}
        return sink_options(
            {
                "kafka.bootstrap.servers": self.bootstrap,
                "topic": self.topic,
                "delivery": "exactly-once",
                "kafka.transaction.timeout.ms": "20000",
                **given,
            }
        )

    def task(self, batch_id, index=0):
        return SparkTask(self.query, batch_id, index)

    def write(self, batch_id, values, index=0, **options):
        return write_once(self.options(**options), self.task(batch_id, index), iter([batch(values)]))

    def values(self):
        """The values that a reader of committed records sees, once no transaction is open."""
        settled(self.topics.cluster, self.topic, self.eventually)
        return self.values_now()

    def values_now(self):
        return sorted(value for _, _, value in committed_rows(self.topics.cluster, self.bootstrap, self.topic))

    def marker(self, index=0):
        group, place = self.task(0, index).name, TopicPartition(self.topic, 0)
        found = self.topics.cluster.committed_offsets(group, [place], require_stable=True)
        return BatchMarker.of(found[place], group) if place in found else None


@pytest.fixture
def rig(bootstrap, topics, eventually):
    return Rig(bootstrap, topics, eventually)


def test_rows_and_their_marker_are_committed_together(rig):
    assert rig.write(0, [b"a", b"b"]).rows == 2
    assert rig.values() == [b"a", b"b"]
    assert rig.marker().batch == 0 and rig.marker().content.rows == 2


def test_batches_that_are_too_large_for_the_topic_are_cut(rig):
    rig.topic = rig.topics.new(1, max_message_bytes="100000")
    values = [b"%06d" % number + b"x" * 1000 for number in range(1000)]
    assert rig.write(0, values).batches >= 11
    assert rig.values() == values


def test_a_repeated_task_writes_nothing_and_says_the_same(rig):
    first = rig.write(0, [b"a", b"b"])
    again = rig.write(0, [b"b", b"a"])  # a shuffle may change the order of the rows
    assert (first.rows, again.rows, again.batches) == (2, 2, 0)
    assert rig.values() == [b"a", b"b"]


def test_batches_follow_one_another(rig):
    for number in range(4):
        rig.write(number, [b"%d" % number])
        rig.write(number, [b"%d" % number])
    assert rig.values() == [b"0", b"1", b"2", b"3"]
    assert rig.marker().batch == 3


def test_a_repeated_task_with_other_rows_is_refused(rig):
    rig.write(0, [b"a"])
    with pytest.raises(NotWritten, match="was committed before with 1 rows"):
        rig.write(0, [b"b"])
    assert rig.values() == [b"a"]


def test_a_repeated_task_that_has_no_rows_any_more_is_refused(rig):
    """Its rows came in another task now, which had not committed and writes them a second time."""
    rig.write(0, [b"a"], index=1)
    with pytest.raises(NotWritten, match="came again with 0 rows"):
        rig.write(0, [], index=1)
    rig.write(1, [], index=1)


def test_tasks_of_a_batch_do_not_disturb_one_another(rig):
    for index in range(3):
        rig.write(0, [b"%d" % index], index=index)
    for index in range(3):
        rig.write(0, [b"%d" % index], index=index)
    assert rig.values() == [b"0", b"1", b"2"]


def test_an_attempt_that_dies_leaves_nothing_to_see(rig):
    def dying():
        yield batch([b"a"] * 5)
        raise OSError("the executor's disk is full")

    with pytest.raises(OSError, match="disk is full"):
        write_once(rig.options(), rig.task(0), dying())
    assert rig.values() == [] and rig.marker() is None
    rig.write(0, [b"a"])
    assert rig.values() == [b"a"]


def test_an_attempt_left_open_is_fenced_and_ended_by_the_next(rig):
    left = abandoned(rig, [b"a", b"b"])
    assert rig.values_now() == []
    rig.write(0, [b"a", b"b"])
    assert rig.values() == [b"a", b"b"]
    with pytest.raises(Exception, match="was fenced"):
        rig.topics.cluster.run(left.commit())
    assert rig.values() == [b"a", b"b"]


def abandoned(rig, values):
    """Leave the transaction of an attempt whose process was killed before it could commit."""
    cluster = rig.topics.cluster
    transactor = Transactor(cluster.plan, rig.task(0).name, timeout_ms=20_000)
    cluster.run(transactor.init())
    transactor.begin()
    sender = TransactionalSender(cluster, rig.options().kafka, transactor)
    write_batch_of_rows(cluster, sender, rig.options(), batch(values))
    return transactor


@pytest.mark.parametrize("rows_before", [1, 3])
def test_a_twin_that_was_overtaken_reports_what_the_other_committed(rig, rows_before):
    """Speculation: the first attempt is in the middle of its rows while the second writes all of them."""
    values = [b"a", b"b", b"c"]

    def slow():
        for at, value in enumerate(values):
            if at == rows_before:
                rig.write(0, values)
            yield batch([value])
        if rows_before == len(values):
            rig.write(0, values)

    assert write_once(rig.options(), rig.task(0), slow()).rows == 3
    assert rig.values() == values


def test_a_zombie_of_an_older_batch_changes_nothing(rig):
    rig.write(0, [b"a"])
    rig.write(1, [b"b"])
    with pytest.raises(NotWritten, match="the marker of batch 1 already"):
        rig.write(0, [b"a"])
    assert rig.values() == [b"a", b"b"] and rig.marker().batch == 1


def test_rows_of_a_query_whose_checkpoint_was_deleted_are_not_passed_over(rig):
    """Under a name of its own, as `write_batch` may give, a query that begins anew has the markers of the old one."""
    for number in range(3):
        rig.write(number, [b"old %d" % number])
    with pytest.raises(NotWritten, match=r"checkpoint.*was deleted"):
        rig.write(0, [b"new"])
    assert rig.values() == [b"old 0", b"old 1", b"old 2"]


def test_an_attempt_fenced_by_one_that_does_not_commit_fails_after_a_while(rig):
    def slow():
        yield batch([b"a"])
        abandoned(rig, [b"a"])
        yield batch([b"b"])

    with pytest.raises(NotWritten, match="a newer attempt has taken over"):
        write_once(rig.options(kafka__transaction__timeout__ms="1500"), rig.task(0), slow())
    rig.write(0, [b"a", b"b"])
    assert rig.values() == [b"a", b"b"]


def test_an_attempt_fenced_by_a_zombie_of_an_older_batch_gives_up_soon(rig, monkeypatch):
    monkeypatch.setattr(once, "QUIET_MS", 300)
    rig.write(0, [b"a"])

    def slow():
        yield batch([b"b"])
        rig.write(0, [b"a"])
        yield batch([b"c"])

    with pytest.raises(NotWritten, match="writes nothing any more"):
        write_once(rig.options(), rig.task(1), slow())
    rig.write(1, [b"b", b"c"])
    assert rig.values() == [b"a", b"b", b"c"]


class LosesTheAnswer(Transactor):
    async def commit(self, *, timeout_ms=None):
        await super().commit(timeout_ms=timeout_ms)
        raise ConnectionLost("the broker's answer to EndTxn")


class LosesTheRequest(Transactor):
    async def commit(self, *, timeout_ms=None):
        raise RequestTimedOut("EndTxn")


def test_a_commit_whose_answer_is_lost_is_found_by_its_marker(rig, monkeypatch):
    monkeypatch.setattr(once, "Transactor", LosesTheAnswer)
    assert rig.write(0, [b"a", b"b"]).rows == 2
    assert rig.values() == [b"a", b"b"]


def test_a_commit_that_did_not_arrive_fails_and_is_done_by_the_next_attempt(rig, monkeypatch):
    monkeypatch.setattr(once, "Transactor", LosesTheRequest)
    with pytest.raises(NotWritten, match="has not taken place"):
        rig.write(0, [b"a"])
    assert rig.values() == []
    monkeypatch.undo()
    rig.write(0, [b"a"])
    assert rig.values() == [b"a"]


def test_task_0_leaves_a_marker_without_rows_and_the_others_nothing(rig):
    for index in (0, 1):
        assert write_once(rig.options(), rig.task(0, index), iter([batch([])])).rows == 0
    assert rig.marker(0) == BatchMarker(0, Content()) and rig.marker(1) is None
    rig.write(1, [b"a"], index=1)
    assert rig.values() == [b"a"]


@pytest.mark.parametrize("index", [0, 1])
def test_a_later_batch_is_refused_where_the_markers_are_gone_unless_asked_for(rig, index):
    with pytest.raises(NotWritten, match=r"delivery\.missing\.marker"):
        rig.write(7, [b"a"], index=index)
    assert rig.values() == []
    rig.write(7, [b"a"], index=index, delivery__missing__marker="write")
    assert rig.values() == [b"a"]


def test_an_offset_of_somebody_else_is_no_marker(rig):
    group = rig.task(0).name
    rig.topics.cluster.commit_offsets(group, {TopicPartition(rig.topic, 0): CommittedOffset(5)})
    with pytest.raises(ValueError, match="no marker of this sink"):
        rig.write(0, [b"a"])


def test_rows_of_many_topics_are_one_transaction(rig):
    other = rig.topics.new()
    rows = batch([b"a", b"b"], topic=pa.array([rig.topic, other]))
    options = sink_options(
        {
            "kafka.bootstrap.servers": rig.bootstrap,
            "delivery": "exactly-once",
            "delivery.marker.topic": rig.topic,
        }
    )
    for _ in range(2):
        write_once(options, rig.task(0), iter([rows]))
    assert rig.values() == [b"a"]
    assert [record.value for record in rig.topics.read(other)] == [b"b"]


def test_a_column_that_is_not_written_may_be_of_any_type(rig):
    rows = batch([b"a"], topic=pa.array([{"x": 1.5}]), other=pa.array([None]))
    for _ in range(2):
        write_once(rig.options(), rig.task(0), iter([rows]))
    assert rig.values() == [b"a"]


def test_ids_and_markers_show_in_the_ordinary_tools(rig):
    rig.write(0, [b"a"])
    listed = set()
    for broker in rig.topics.cluster.brokers():
        answer = rig.topics.cluster.request(ListTransactionsRequest(), broker_id=broker)
        listed |= {each.transactional_id for each in answer.transaction_states}
    assert rig.task(0).name == f"ottla-{rig.query}-0" and rig.task(0).name in listed
    assert rig.task(0).name in {group.group_id for group in rig.topics.admin.list_groups()}
