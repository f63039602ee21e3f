"""Tables of a database, by change capture through topics, are the same tables in another one, whatever is killed."""

import os
import random
import signal
import subprocess
import sys
import time

import psycopg
import pytest
from tests.connect.plugins.capture.scenario import ask

JSON = "org.apache.kafka.connect.json.JsonConverter"
TABLE = """CREATE TABLE public.item (id int PRIMARY KEY, n int NOT NULL, small text, big text, at timestamptz,
                                     price numeric(10,2), tags text[], raw bytea,
                                     day date DEFAULT '2024-02-29', local timestamp(6) DEFAULT '2024-02-29 01:02:03.5',
                                     doc jsonb DEFAULT '[1]', ref uuid DEFAULT '00000000000000000000000000000007',
                                     amount numeric DEFAULT 1.2345, hour time DEFAULT '23:59:59.5')"""


class Pipeline:
    """A standalone worker process with both connectors, between two databases of one server."""

    def __init__(self, server, bootstrap, folder, name):
        self.name = name
        self.here, self.there = server.database(f"{name}_a"), server.database(f"{name}_b")
        source = {
            "name": f"{name}-in", "connector.class": "PostgresConnector", "topic.prefix": name,
            "database.hostname": "127.0.0.1", "database.port": server.port, "database.user": "ottla",
            "database.dbname": f"{name}_a", "slot.name": name, "table.include.list": r"public\\.item",
            "status.update.interval.ms": 100, "publication.name": name, "decimal.handling.mode": "precise",
        }  # fmt: skip
        sink = {
            "name": f"{name}-out", "connector.class": "JdbcSink", "topics": f"{name}.public.item",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/{name}_b?user=ottla",
            "insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true", "table.name.format": "item",
            "transforms": "row", "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
            "retry.backoff.ms": 100, "max.retries": 1000,
        }  # fmt: skip
        worker = {
            "bootstrap.servers": bootstrap, "key.converter": JSON, "value.converter": JSON,
            "offset.storage.file.filename": folder / "offsets", "offset.flush.interval.ms": 100,
            "consumer.session.timeout.ms": 6000,
        }  # fmt: skip
        self._files = []
        for file, options in (("worker", worker), ("in", source), ("out", sink)):
            path = folder / f"{file}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
            self._files.append(str(path))
        self._log = folder / "log"
        self.offsets = folder / "offsets"
        self.process = None

    def start(self):
        """Start the worker."""
        command = [sys.executable, "-m", "ottla.cli.main", "connect", "start", *self._files]
        with self._log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self):
        """Kill the worker with -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self):
        """All that the worker has said."""
        return self._log.read_text()


def rows(database):
    """All rows; none while the server is away."""
    return ask(database, "SELECT * FROM item ORDER BY id")


def until_equal(pipeline):
    """Wait until both tables are the same."""
    end = time.monotonic() + 90
    while (left := rows(pipeline.here)) != (right := rows(pipeline.there)):
        assert pipeline.process.poll() is None, pipeline.log()
        assert "in-0: failed" not in pipeline.log(), pipeline.log()
        assert time.monotonic() < end, [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
        time.sleep(0.05)


def until_seen(pipeline, key):
    """Wait until a new row is in the other table: both connectors are at work."""
    ask(pipeline.here, f"INSERT INTO item VALUES ({key}, 0)")
    end = time.monotonic() + 90
    while not ask(pipeline.there, f"SELECT 1 FROM item WHERE id = {key}"):
        assert pipeline.process.poll() is None, pipeline.log()
        assert time.monotonic() < end, pipeline.log()
        time.sleep(0.05)


def change(database, draw, count):
    """A transaction of inserts, updates, deletions and changed keys; values that are stored apart stay mostly."""
    with psycopg.connect(**database) as connection:
        for _ in range(count):
            key, kind = draw.randrange(60), draw.random()
            if kind < 0.4:
                connection.execute(
                    "INSERT INTO item VALUES (%s, %s, 'ü', repeat(%s, 9000), now(), 1.50, '{a,NULL}', '\\x00ff') "
                    "ON CONFLICT (id) DO UPDATE SET n = excluded.n", (key, draw.randrange(99), draw.choice("abc")),
                )  # fmt: skip
            elif kind < 0.7:
                connection.execute("UPDATE item SET n = n + 1, price = price + 0.01 WHERE id = %s", (key,))
            elif kind < 0.8:
                connection.execute("UPDATE item SET big = repeat('z', 5000) WHERE id = %s", (key,))
            else:
                connection.execute("DELETE FROM item WHERE id = %s", (key,))


@pytest.fixture
def pipeline(postgres_server, bootstrap, tmp_path):
    name = f"cdc{os.getpid()}"
    ask(postgres_server.database(), f"CREATE DATABASE {name}_a", f"CREATE DATABASE {name}_b")
    made = Pipeline(postgres_server, bootstrap, tmp_path, name)
    ask(made.here, TABLE, "ALTER TABLE item ALTER big SET STORAGE EXTERNAL")
    ask(made.there, TABLE.replace("public.item", "item"))
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()
    slots = "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE NOT active"
    while ask(made.here, "SELECT 1 FROM pg_replication_slots WHERE slot_name = current_database() AND active"):
        time.sleep(0.05)
    ask(made.here, slots)
    for each in "ab":
        ask(postgres_server.database(), f"DROP DATABASE {name}_{each} WITH (FORCE)")


def test_tables_are_equal_after_kills_of_the_worker_and_restarts_of_the_database(pipeline, postgres_server, at_length):
    draw = random.Random(7)
    change(pipeline.here, draw, 60)
    pipeline.start()
    for round_number in range(20 if at_length else 2):
        until_seen(pipeline, 1000 + round_number)
        for _ in range(5):
            change(pipeline.here, draw, draw.randrange(1, 20))
        if round_number % 2 == 1:
            postgres_server.stop()
            postgres_server.start()
        else:
            pipeline.kill()
            change(pipeline.here, draw, 10)
            pipeline.start()
    until_equal(pipeline)
    assert rows(pipeline.here)
    confirmed = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{pipeline.name}'"
    before = ask(pipeline.here, confirmed)
    ask(pipeline.here, "CREATE TABLE other (id int)", "INSERT INTO other SELECT generate_series(1, 100)")
    ((end,),) = ask(pipeline.here, "SELECT pg_current_wal_lsn()")
    while not ask(pipeline.here, f"SELECT '{ask(pipeline.here, confirmed)[0][0]}'::pg_lsn >= '{end}'::pg_lsn")[0][0]:
        assert pipeline.process.poll() is None, pipeline.log()  # the slot follows the log where no captured table does
        time.sleep(0.05)
    assert before != ask(pipeline.here, confirmed)
