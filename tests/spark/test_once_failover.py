"""Tasks write exactly once while brokers are killed, and with them coordinators and leaders."""

import random
import threading
import time

import pyarrow as pa
import pytest
from committed import committed_rows, settled
from three_brokers import TemporaryCluster

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.spark.attempt import NotWritten
from ottla.spark.marker import SparkTask
from ottla.spark.once import write_once
from ottla.spark.options import sink_options

pytestmark = [pytest.mark.slow]

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "replica.lag.time.max.ms": "3000",
}
KILLS, TASKS, ROWS, ATTEMPTS = 5, 2, 20, 4


class Spark:
    """Runs tasks as Spark does: again after a failure, some again after a success, then the next batch."""

    def __init__(self, bootstrap, seed):
        self.options = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": "t", "delivery": "exactly-once"})
        self.chance = random.Random(seed)
        self.given = []
        self.repeated = 0

    def batch(self, number):
        for index in range(TASKS):
            rows = [(b"%d" % index, b"%d-%d-%d" % (number, index, row)) for row in range(ROWS)]
            self.given += rows
            self.task(SparkTask("q", number, index), rows)
            if self.chance.random() < 0.4:
                self.repeated += 1
                self.task(SparkTask("q", number, index), rows)

    def task(self, task, rows):
        halves = [rows[: ROWS // 2], rows[ROWS // 2 :]]
        for attempt in range(1, ATTEMPTS + 1):
            batches = [
                pa.RecordBatch.from_pydict({"key": [key for key, _ in half], "value": [value for _, value in half]})
                for half in halves
            ]
            try:
                write_once(self.options, task, iter(batches))
                return
            except (NotWritten, ClientError, ApiError):
                if attempt == ATTEMPTS:
                    raise


def test_killed_brokers_neither_lose_nor_double_rows(eventually):
    chance = random.Random(3)
    with (
        TemporaryCluster(SETTINGS) as brokers,
        Cluster(brokers.bootstrap) as cluster,
        Admin(brokers.bootstrap) as admin,
    ):
        admin.create_topic("t", 2, 3, configs={"min.insync.replicas": "2"})

        def in_sync():
            cluster.refresh(["t"])
            return all(len(each.isr) == 3 for each in cluster.topic("t").partitions.values())

        def kill():
            for _ in range(KILLS):
                number = chance.choice((1, 2, 3))
                brokers.kill(number)
                time.sleep(chance.uniform(0, 1))
                brokers.start(number)
                eventually(in_sync)

        spark = Spark(brokers.bootstrap, seed=4)
        killer = threading.Thread(target=kill)
        killer.start()
        number = 0
        while killer.is_alive() or number < 20:
            spark.batch(number)
            number += 1
        killer.join()
        settled(cluster, "t", eventually)
        found = [(key, value) for _, key, value in committed_rows(cluster, brokers.bootstrap, "t")]
        assert spark.repeated > 0
        for index in range(TASKS):
            mine = b"%d" % index
            assert [row for row in found if row[0] == mine] == [row for row in spark.given if row[0] == mine]
