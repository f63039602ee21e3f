"""Record Debezium's events of the scenario: its own connector on a stock worker, beside ours on the same database.

Run by `make debezium-events`, which needs Java, Maven's jars and PostgreSQL. It prints where the two differ.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from tests.connect.plugins.capture import scenario
from tests.connect.postgres_server import a_server

from ottla.client import Admin
from ottla.testing import TestBroker

JSON = "org.apache.kafka.connect.json.JsonConverter"


@contextmanager
def a_worker(broker, configs, folder, jars="debezium"):
    """A stock worker with Debezium's connector in all configurations, which are named."""
    (folder / "plugins" / "debezium").mkdir(parents=True)
    for jar in Path(f".cache/{jars}/libs").glob("*.jar"):
        (folder / "plugins" / "debezium" / jar.name).symlink_to(jar.resolve())
    worker = {
        "bootstrap.servers": broker.bootstrap_servers, "key.converter": JSON, "value.converter": JSON,
        "offset.storage.file.filename": folder / "offsets", "plugin.path": folder / "plugins",
        "listeners": "http://127.0.0.1:0", "plugin.discovery": "service_load",
    }  # fmt: skip
    files = [folder / f"{run}.properties" for run in configs]
    for text, file in zip(configs.values(), files, strict=True):
        file.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in text.items()))
    (folder / "worker.properties").write_text("".join(f"{name}={value}\n" for name, value in worker.items()))
    command = ["java", "-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-cp",
               f"{Path('.cache/kafka/libs').resolve()}/*", "org.apache.kafka.connect.cli.ConnectStandalone",
               str(folder / "worker.properties"), *map(str, files)]  # fmt: skip
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.kill()


def until(holds):
    """Wait for a condition, at most four minutes."""
    end = time.monotonic() + 240
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("Debezium's connector did not come so far")
        time.sleep(0.5)


def events_of(broker):
    """All events on the broker by topic, in the form of the recording."""
    with Admin(broker.bootstrap_servers) as admin:
        topics = [each for each in admin.list_topics() if each.split(".")[0] in {f"p{run}" for run in scenario.RUNS}]
    found = {}
    for topic in topics:
        for each in broker.records(topic, at_least=1, timeout=60):
            key, value = (None if part is None else json.loads(part) for part in (each.key, each.value))
            found.setdefault(topic, []).append((key, value, [name for name, _ in each.headers]))
    return found


def main():
    """Record, compare, and keep the recording."""
    with a_server() as server, TestBroker() as broker, tempfile.TemporaryDirectory() as folder:
        scenario.ask(server.database(), "CREATE DATABASE captured")
        database = server.database("captured")
        scenario.run_file(database, "before.sql")
        configs = {run: scenario.config_of(run, database) for run in scenario.RUNS}
        with a_worker(broker, configs, Path(folder)):
            active = "SELECT count(*) FROM pg_replication_slots WHERE active"
            until(lambda: scenario.ask(database, active)[0][0] == len(scenario.RUNS))
            time.sleep(10)  # a slot is active before the connector sends changes on; nothing tells of more
            ours = asyncio.run(ours_beside(database))
            last = [f"p{run}.public.plain" for run in scenario.RUNS]
            until(lambda: all(len(events_of(broker).get(each, ())) >= (1 if "pd" in each else 2) for each in last))
            theirs = events_of(broker)
    places = sorted({(place, str(a)[:90], str(b)[:90]) for place, a, b in
                     scenario.differences(theirs, ours, same_log=True)})  # fmt: skip
    for place, a, b in places:
        print(f"{place}\n    Debezium: {a}\n    ottla:    {b}")
    scenario.keep_recording(theirs)
    return 0


async def ours_beside(database):
    """Our events, read from slots of our own."""
    runs = scenario.RUNS
    config_of = scenario.config_of
    scenario.config_of = lambda run, database: {**config_of(run, database), "slot.name": f"ours_{run}"}
    try:
        return await scenario.events_of_ours(database, runs)
    finally:
        scenario.config_of = config_of


if __name__ == "__main__":
    sys.exit(main())
