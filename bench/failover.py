"""Measures how long a client stands still after its partition's leader is killed or stopped.

    python -m bench.failover                      ottla, 30 kills
    python -m bench.failover --signal TERM        graceful stops instead
    python -m bench.failover --signal STOP        brokers that hang, and go on when others lead
        --client socket.timeout.ms=7000           with less patience than librdkafka's minute
    python -m bench.failover --zookeeper          with the metadata in an own ZooKeeper ensemble of three servers
    python -m bench.failover --kafka              Apache Kafka too (three KRaft nodes with its defaults)
    python -m bench.failover --clients producer,java-consumer,java-consumer-auto
        --java retry.backoff.ms=10                with another setting of Java's consumers
    python -m bench.failover --clients all        also a producer made anew before each death, consumers, Java's clients

Three brokers on this machine, one partition with three replicas, min.insync.replicas=2; an idempotent confluent-kafka
producer with its defaults sends a record every two milliseconds. After each death the broker comes back and is in sync
before the next. At the end all records are read back: each acknowledged record must be there exactly once. With Java's
clients Apache Kafka's jars are needed: `tools/setup.sh java kafka`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clusters import Cluster, KafkaCluster, OttlaCluster, ZookeeperCluster, until
from bench.failover_clients import NAMES, Watched, clients

TOPIC = "failover"


def run(
    cluster: Cluster,
    deaths: int,
    how: signal.Signals,
    names: Sequence[str],
    options: dict[str, str],
    java: dict[str, str],
) -> list[dict[str, object]]:
    """End leaders; return the gaps and the counts of records of each client.

    `options` are of librdkafka's producers, `java` of Java's consumers.
    """
    cluster.start()
    watched: list[Watched] = []
    gaps: dict[str, list[float]] = {}
    try:
        admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
        topic = NewTopic(TOPIC, num_partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        until(lambda: len(admin.list_topics(timeout=10).brokers) == 3)
        admin.create_topics([topic])[TOPIC].result(30)
        try:
            started = clients(names, cluster.address, TOPIC, cluster.folder, options, java)
            watched.extend(started)  # each is stopped below
            for number in range(1, deaths + 1):
                for each in watched:
                    each.before_a_death()
                _all_go_on(watched)
                leader = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].leader
                began = time.time()
                cluster.end(leader, how)
                until(lambda began=began: all(each.is_back(began) for each in watched))
                _all_go_on(watched)
                for each in watched:
                    gaps.setdefault(each.name, []).append(each.longest_gap_s(began - 0.2))
                told = "  ".join(f"{name} {found[-1]:.3f} s" for name, found in gaps.items())
                print(f"{cluster.name}  {number:3}  broker {leader}  {told}", flush=True)
                cluster.bring_back(leader)
                until(lambda: len(admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].isrs) == 3)
        finally:
            with ExitStack() as stack:
                for each in watched:
                    stack.callback(each.stop)
        found = judge(cluster.address)
    finally:
        cluster.stop()
    about = {"cluster": cluster.name, "signal": how.name, "options": options, "java": java, "deaths": deaths}
    return [about | told_of(each, writer, gaps[each.name], found) for writer, each in enumerate(watched)]


def _all_go_on(watched: Sequence[Watched]) -> None:
    for each in watched:
        each.goes_on()


def told_of(client: Watched, writer: int, gaps: Sequence[float], found: Sequence[str]) -> dict[str, object]:
    """A client's gaps, and its records as they were read back at the end; `writer` is its number."""
    seconds = {
        "client": client.name,
        "median_s": round(statistics.median(gaps), 3),
        "max_s": round(max(gaps), 3),
        "gaps_s": [round(gap, 3) for gap in gaps],
    }
    if not client.writes:
        return seconds
    times = Counter(found)
    return seconds | {
        "acknowledged": len(client.acknowledged),
        "failed": client.failed,
        "lost": sum(1 for value in client.acknowledged if not times[value]),
        "repeated": sum(count - 1 for value, count in times.items() if value.startswith(f"{writer}.")),
    }


def judge(servers: str) -> list[str]:
    """All values, read back."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "judge", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[str] = []
    while True:
        message: Message | None = consumer.poll(30)
        if message is None:
            raise RuntimeError("the records cannot be read back")
        if message.error() is not None:
            if message.error().code() == KafkaError._PARTITION_EOF:
                break
            continue
        found.append(message.value().decode())
    consumer.close()
    return found


def sentence(result: dict[str, object]) -> str:
    gaps = f"longest gap median {result['median_s']} s, max {result['max_s']} s"
    counts = [f"{result[name]} {name}" for name in ("acknowledged", "lost", "repeated", "failed") if name in result]
    records = f"; records: {', '.join(counts)}" if counts else ""
    return f"{result['cluster']}, {result['client']}: {result['deaths']} x {result['signal']}: {gaps}{records}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=30, help="how many (default 30)")
    parser.add_argument("--signal", choices=("KILL", "TERM", "STOP"), default="KILL", help="KILL (default), TERM, STOP")
    parser.add_argument(
        "--client", action="append", default=[], metavar="KEY=VALUE", help="an option of librdkafka's producers"
    )
    parser.add_argument(
        "--java", action="append", default=[], metavar="KEY=VALUE", help="an option of Java's consumers"
    )
    parser.add_argument(
        "--clients", default="producer", metavar="NAMES", help=f"of {', '.join(NAMES)}; or all (default producer)"
    )
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
    names = list(NAMES) if options.clients == "all" else options.clients.split(",")
    if unknown := sorted({*names} - {*NAMES}):
        parser.error(f"--clients: no such client: {', '.join(unknown)}")
    client = dict(option.split("=", 1) for option in options.client)
    java = dict(option.split("=", 1) for option in options.java)
    results: list[dict[str, object]] = []
    for kind in kinds:
        folder = Path(tempfile.mkdtemp(prefix="ottla-failover-"))
        try:
            results += run(kind(folder), options.deaths, how, names, client, java)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    for result in results:
        print(sentence(result))
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result.get("lost") or result.get("repeated") for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
