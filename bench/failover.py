"""Measures how long a producer gets no acknowledgement after its partition's leader is killed or stopped.

    python -m bench.failover                      ottla, 30 kills
    python -m bench.failover --signal TERM        graceful stops instead
    python -m bench.failover --signal STOP        brokers that hang, and go on when others lead
        --client socket.timeout.ms=7000           with less patience than librdkafka's minute
    python -m bench.failover --zookeeper          with the metadata in an own ZooKeeper ensemble of three servers
    python -m bench.failover --kafka              Apache Kafka too (three KRaft nodes with its defaults)

Three brokers on this machine, one partition with three replicas, min.insync.replicas=2; an idempotent confluent-kafka
producer with its defaults sends a record every two milliseconds. After each death the broker comes back and is in sync
before the next. At the end all records are read back: each acknowledged record must be there exactly once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clusters import Cluster, KafkaCluster, OttlaCluster, ZookeeperCluster, until

TOPIC = "failover"
_EVERY_S = 0.002
_ENOUGH = 200


class Writing:
    """A producer in its own thread; notes when each record was acknowledged."""

    def __init__(self, servers: str, options: dict[str, str]) -> None:
        self.acknowledged: list[int] = []
        self.times: list[float] = []
        self.failed = 0
        self.sent = 0
        self._going = True
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0, **options})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._going:
            number = self.sent
            self._producer.produce(TOPIC, str(number), on_delivery=lambda error, _, at=number: self._told(error, at))
            self.sent += 1
            self._producer.poll(_EVERY_S)
        self._producer.flush(60)

    def _told(self, error: KafkaError | None, number: int) -> None:
        if error is not None:
            self.failed += 1
            return
        self.acknowledged.append(number)
        self.times.append(time.monotonic())

    def goes_on(self) -> None:
        """Wait until enough further records are acknowledged for a steady rate."""
        enough = len(self.times) + _ENOUGH
        until(lambda: len(self.times) >= enough)

    def longest_gap_s(self, since: float) -> float:
        times = [at for at in list(self.times) if at >= since]
        return max(later - earlier for earlier, later in pairwise(times))

    def stop(self) -> None:
        self._going = False
        self._thread.join()


def run(cluster: Cluster, deaths: int, how: signal.Signals, client: dict[str, str]) -> dict[str, object]:
    """End leaders; return the gaps and the counts of records. `client` are options of the producer."""
    cluster.start()
    try:
        admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
        topic = NewTopic(TOPIC, num_partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        until(lambda: len(admin.list_topics(timeout=10).brokers) == 3)
        admin.create_topics([topic])[TOPIC].result(30)
        writing = Writing(cluster.address, client)
        gaps = []
        try:
            for number in range(1, deaths + 1):
                writing.goes_on()
                leader = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].leader
                began = time.monotonic()
                cluster.end(leader, how)
                until(lambda began=began: any(at > began + 0.5 for at in writing.times[-1:]))
                writing.goes_on()
                gaps.append(writing.longest_gap_s(began - 0.2))
                print(f"{cluster.name}  {number:3}  broker {leader}  {gaps[-1]:.3f} s", flush=True)
                cluster.bring_back(leader)
                until(lambda: len(admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].isrs) == 3)
        finally:
            writing.stop()
        lost, repeated = judge(cluster.address, writing)
    finally:
        cluster.stop()
    return {
        "cluster": cluster.name,
        "signal": how.name,
        "client": client,
        "deaths": deaths,
        "median_s": round(statistics.median(gaps), 3),
        "max_s": round(max(gaps), 3),
        "acknowledged": len(writing.acknowledged),
        "failed": writing.failed,
        "lost": lost,
        "repeated": repeated,
        "gaps_s": [round(gap, 3) for gap in gaps],
    }


def judge(servers: str, writing: Writing) -> tuple[int, int]:
    """Read all records back; return (acknowledged but lost, there more than once)."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "judge", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    while True:
        message: Message | None = consumer.poll(30)
        if message is None:
            raise RuntimeError("the records cannot be read back")
        if message.error() is not None:
            if message.error().code() == KafkaError._PARTITION_EOF:
                break
            continue
        found.append(int(message.value()))
    consumer.close()
    return len(set(writing.acknowledged) - set(found)), len(found) - len(set(found))


def sentence(result: dict[str, object]) -> str:
    gaps = f"longest gap median {result['median_s']} s, max {result['max_s']} s"
    records = ", ".join(f"{result[name]} {name}" for name in ("acknowledged", "lost", "repeated", "failed"))
    return f"{result['cluster']}: {result['deaths']} x {result['signal']}: {gaps}; records: {records}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=30, help="how many (default 30)")
    parser.add_argument("--signal", choices=("KILL", "TERM", "STOP"), default="KILL", help="KILL (default), TERM, STOP")
    parser.add_argument("--client", action="append", default=[], metavar="KEY=VALUE", help="an option of the producer")
    parser.add_argument("--zookeeper", action="store_true", help="ottla with its metadata in ZooKeeper")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too")
    parser.add_argument("--only-kafka", action="store_true", help="Apache Kafka alone")
    parser.add_argument("--out", type=Path, help="write the results there, as JSON")
    options = parser.parse_args()
    how = signal.Signals[f"SIG{options.signal}"]
    ours = ZookeeperCluster if options.zookeeper else OttlaCluster
    kinds: list[type[OttlaCluster] | type[KafkaCluster]] = [] if options.only_kafka else [ours]
    if options.kafka or options.only_kafka:
        kinds.append(KafkaCluster)
    client = dict(option.split("=", 1) for option in options.client)
    results = []
    for kind in kinds:
        folder = Path(tempfile.mkdtemp(prefix="ottla-failover-"))
        try:
            results.append(run(kind(folder), options.deaths, how, client))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    for result in results:
        print(sentence(result))
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result["lost"] or result["repeated"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
