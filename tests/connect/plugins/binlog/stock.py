"""Record Debezium's events of the scenario: its own connector on a stock worker, beside ours on the same server.

Run by `make debezium-events-mariadb`, which needs Java, Maven's jars and MariaDB. It prints where the two differ.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.connect.mariadb_server import a_server, ask
from tests.connect.plugins.binlog import scenario
from tests.connect.plugins.capture.scenario import differences, keep_recording
from tests.connect.plugins.capture.stock import a_worker, events_of, until

from ottla.testing import TestBroker


def main():
    """Record, compare, and keep the recording."""
    with a_server() as server, TestBroker() as broker, tempfile.TemporaryDirectory() as folder:
        database = server.database()
        scenario.run_file(database, "before.sql")
        history = {
            "schema.history.internal.kafka.bootstrap.servers": broker.bootstrap_servers,
            "database.ssl.mode": "disable",
        }  # fmt: skip
        topic = "schema.history.internal.kafka.topic"
        configs = {
            run: {**scenario.config_of(run, database), **history, topic: f"history-{run}"} for run in scenario.RUNS
        }
        with a_worker(broker, configs, Path(folder), "debezium-mariadb"):
            readers = "SELECT count(*) FROM information_schema.processlist WHERE command = 'Binlog Dump'"
            until(lambda: ask(database, readers)[0][0] == len(configs))
            numbers = scenario.config_of
            scenario.config_of = lambda run, database: {**numbers(run, database), "database.server.id": "0"}
            ours = asyncio.run(scenario.events_of_ours(database))
            scenario.config_of = numbers
            last = [topic for topic in ours if topic.endswith("inv.plain")]
            until(lambda: all(len(events_of(broker).get(each, ())) >= len(ours[each]) for each in last))
            until(lambda: len(events_of(broker).get("pc.transaction", ())) >= len(ours["pc.transaction"]))
            theirs = {topic: found for topic, found in events_of(broker).items() if "." in topic}
    places = sorted({(place, str(a)[:90], str(b)[:90]) for place, a, b in differences(theirs, ours, same_log=True)})
    for place, a, b in places:
        print(f"{place}\n    Debezium: {a}\n    ottla:    {b}")
    keep_recording(theirs, scenario.RECORDED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
