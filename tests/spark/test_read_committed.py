"""The source with read_committed, over transactions that are open, committed, aborted and hanging."""

import json

import pytest
from committed import settled
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ottla.client.blocking.cluster import Cluster
from ottla.client.core.transfer import produce
from ottla.client.model import InTransaction
from ottla.client.produce.transacting import Transactor
from ottla.kernel.ids import TopicPartition
from ottla.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.spark.batch import OttlaBatchReader
from ottla.spark.options import source_options
from ottla.spark.stream import OttlaStreamReader
from ottla.testing import TestBroker

ALL = ReadAllAvailable()


def given(bootstrap, topic, **more):
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        **more,
    }


def records(values, transactor=None, place=None):
    made = [Record(0, 1_700_000_000_000, None, value) for value in values]
    if transactor is None:
        return build_batch(made)
    return build_batch(
        made,
        producer_id=transactor.identity.producer_id,
        producer_epoch=transactor.identity.producer_epoch,
        base_sequence=transactor.next_sequence(place),
        is_transactional=True,
    )


class Log:
    """One partition, and transactions that write to it."""

    def __init__(self, cluster, topic):
        self.cluster, self.place = cluster, TopicPartition(topic, 0)

    def begin(self, name):
        transactor = Transactor(self.cluster.plan, f"{self.place.topic}-{name}")
        self.cluster.run(transactor.init())
        transactor.begin()
        return transactor

    def add(self, transactor, *values):
        self.cluster.run(transactor.produce([(self.place, records(values, transactor, self.place))]))

    def plain(self, *values):
        self.cluster.produce(*self.place, records(values))

    def end(self, transactor, *, commit):
        self.cluster.run(transactor.commit() if commit else transactor.abort())


class Stream:
    """Micro-batches of a query, one after the other."""

    def __init__(self, bootstrap, topic, **more):
        self.bootstrap, self.topic = bootstrap, topic
        self.restart(**more)
        self.at = self.reader.initialOffset()

    def restart(self, **more):
        self.reader = OttlaStreamReader(source_options(given(self.bootstrap, self.topic, **more), streaming=True))

    def more(self):
        """The values of the next micro-batch."""
        end = json.loads(json.dumps(self.reader.latestOffset(self.at, ALL)))
        found = values(self.reader, self.reader.partitions(self.at, end))
        self.at = end
        return found


def values(reader, partitions):
    return [row["value"] for partition in partitions for batch in reader.read(partition) for row in batch.to_pylist()]


def batch_values(bootstrap, topic):
    reader = OttlaBatchReader(source_options(given(bootstrap, topic), streaming=False))
    return values(reader, reader.partitions())


@pytest.fixture
def log(topics):
    return Log(topics.cluster, topics.new())


def test_an_open_transaction_holds_back_all_that_lies_behind_it(log, bootstrap, eventually):
    log.plain(b"before")
    held = log.begin("one")
    log.add(held, b"held")
    log.plain(b"behind")
    stream = Stream(bootstrap, log.place.topic)
    assert stream.more() == [b"before"] and stream.more() == []
    assert batch_values(bootstrap, log.place.topic) == [b"before"]
    log.end(held, commit=True)
    found = []
    eventually(lambda: found.extend(stream.more()) or len(found) >= 2)
    assert found == [b"held", b"behind"]
    assert batch_values(bootstrap, log.place.topic) == [b"before", b"held", b"behind"]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_query_that_goes_on_with_read_committed_waits_for_a_transaction_that_it_has_read(
    log, bootstrap, eventually, fails
):
    """Its checkpoint lies behind the last stable offset: that is no loss, and no reason to read the rows again."""
    log.plain(b"before")
    held = log.begin("one")
    log.add(held, b"held")
    topic = log.place.topic
    loose = {"kafka.isolation.level": "read_uncommitted"}
    stream = Stream(bootstrap, topic, **loose)
    assert stream.more() == [b"before", b"held"]
    stream.restart(failOnDataLoss=fails)
    assert stream.more() == []
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.more() == []
    log.plain(b"behind")
    stream.restart(failOnDataLoss=fails)
    assert stream.more() == []
    log.end(held, commit=True)
    found = []
    eventually(lambda: found.extend(stream.more()) or len(found) >= 1)
    assert found == [b"behind"]


def test_an_aborted_transaction_is_left_out_wherever_a_micro_batch_is_cut(log, bootstrap, eventually):
    aborted, committed = log.begin("one"), log.begin("two")
    stream = Stream(bootstrap, log.place.topic)
    found = []
    log.add(aborted, b"x1", b"x2")
    log.add(committed, b"a")
    log.add(aborted, b"x3")
    log.end(committed, commit=True)
    found += stream.more()
    log.end(aborted, commit=False)
    eventually(lambda: found.extend(stream.more()) or len(found) >= 1)
    again = log.begin("one")
    log.add(again, b"b")
    log.end(again, commit=True)
    eventually(lambda: found.extend(stream.more()) or len(found) >= 2)
    assert found == [b"a", b"b"]
    settled(log.cluster, log.place.topic, eventually)
    assert batch_values(bootstrap, log.place.topic) == [b"a", b"b"]


def test_a_range_that_begins_inside_an_aborted_transaction_leaves_out_the_rest_of_it(log, bootstrap, eventually):
    """A query may read uncommitted records first, and start again with read_committed."""
    aborted = log.begin("one")
    log.add(aborted, b"x0", b"x1", b"x2")
    log.plain(b"a")
    log.end(aborted, commit=False)
    topic = log.place.topic
    settled(log.cluster, topic, eventually)
    start = json.dumps({topic: {"0": 1}})
    reader = OttlaBatchReader(source_options(given(bootstrap, topic, startingOffsets=start), streaming=False))
    assert values(reader, reader.partitions()) == [b"a"]


def test_without_read_committed_all_is_read(log, bootstrap):
    held = log.begin("one")
    log.add(held, b"open")
    options = given(bootstrap, log.place.topic, **{"kafka.isolation.level": "read_uncommitted"})
    reader = OttlaBatchReader(source_options(options, streaming=False))
    assert values(reader, reader.partitions()) == [b"open"]
    log.end(held, commit=False)
    assert values(reader, reader.partitions()) == [b"open"]


def test_a_hanging_transaction_holds_the_query_until_an_administrator_aborts_it(eventually):
    """A batch whose transaction is unknown to the coordinator, as old clients could leave it (KIP-890)."""
    with TestBroker({"transaction.partition.verification.enable": "false"}) as broker:
        bootstrap = broker.bootstrap_servers
        with Cluster(bootstrap) as cluster:
            topic = broker.new_topic_name()
            cluster.run(cluster.plan.ensure([topic], create=True))
            log = Log(cluster, topic)
            log.plain(b"before")
            hanging = log.begin("late")
            batch = records([b"hanging"], hanging, log.place)
            unknown = InTransaction(hanging.transactional_id, brokers_add=False)
            cluster.run(produce(cluster.plan, *log.place, batch, transaction=unknown))
            log.plain(b"behind")
            stream = Stream(bootstrap, topic)
            assert stream.more() == [b"before"] and stream.more() == []
            abort(cluster, log.place, hanging)
            found = []
            eventually(lambda: found.extend(stream.more()) or bool(found))
            assert found == [b"behind"]


def abort(cluster, place, transactor):
    """Abort a transaction as `kafka-transactions abort` does."""
    marker = WritableTxnMarker(
        producer_id=transactor.identity.producer_id,
        producer_epoch=transactor.identity.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
        coordinator_epoch=-1,
    )
    answer = cluster.request_to_leader(*place, WriteTxnMarkersRequest(markers=[marker]))
    assert answer.markers[0].topics[0].partitions[0].error_code == 0
