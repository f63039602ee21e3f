"""A scene for campaigns: change capture from one database into another, under kills of all that takes part.

`captured` can be called by a test with few kills, and by a campaign with many and with a broker that it kills.
"""

import random
import signal
import subprocess
import sys
import time

import psycopg
from tests.connect.plugins.capture.scenario import ask, drop_slots

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
            "name": f"{name}-in", "topic.prefix": name, "database.hostname": "127.0.0.1",
            "database.port": server.port, "status.update.interval.ms": 100, "decimal.handling.mode": "precise",
            **self.source(),
        }  # fmt: skip
        sink = {
            "name": f"{name}-out", "connector.class": "JdbcSink", **self.sink(server),
            "insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true", "table.name.format": "item",
            "transforms": "row", "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
            "retry.backoff.ms": 100, "max.retries": 1000,
        }  # fmt: skip
        self.connectors = (source, sink)
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

    def source(self):
        """The options of the source that another database has otherwise."""
        return {
            "connector.class": "PostgresConnector", "database.user": "ottla", "database.dbname": f"{self.name}_a",
            "slot.name": self.name, "table.include.list": r"public\\.item", "publication.name": self.name,
        }  # fmt: skip

    def sink(self, server):
        """The options of the sink that another database has otherwise."""
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/{self.name}_b?user=ottla"
        return {"connection.url": url, "topics": f"{self.name}.public.item"}

    def ask(self, database, *statements):
        """The rows of the last statement."""
        return ask(database, *statements)

    def change(self, draw, count):
        """Change the first table."""
        change(self.here, draw, count)

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


def rows(pipeline, database):
    """All rows."""
    return pipeline.ask(database, "SELECT * FROM item ORDER BY id")


def until_equal(pipeline):
    """Wait until both tables are the same."""
    end = time.monotonic() + 90
    while (left := rows(pipeline, pipeline.here)) != (right := rows(pipeline, pipeline.there)):
        assert pipeline.process.poll() is None, pipeline.log()
        assert "in-0: failed" not in pipeline.log(), pipeline.log()
        assert time.monotonic() < end, [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
        time.sleep(0.05)


def until_seen(pipeline, key):
    """Wait until a new row is in the other table: both connectors are at work."""
    pipeline.ask(pipeline.here, f"INSERT INTO item (id, n) VALUES ({key}, 0)")
    end = time.monotonic() + 90
    while not pipeline.ask(pipeline.there, f"SELECT 1 FROM item WHERE id = {key}"):
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


def prepared(server, bootstrap, folder, name):
    """A pipeline between two new databases of a server; not started."""
    ask(server.database(), f"CREATE DATABASE {name}_a", f"CREATE DATABASE {name}_b")
    made = Pipeline(server, bootstrap, folder, name)
    ask(made.here, TABLE, "ALTER TABLE item ALTER big SET STORAGE EXTERNAL")
    ask(made.there, TABLE.replace("public.item", "item"))
    return made


def removed(server, pipeline):
    """End the worker, drop the slot and both databases."""
    if pipeline.process is not None and pipeline.process.poll() is None:
        pipeline.kill()
    drop_slots(pipeline.here)
    for each in "ab":
        ask(server.database(), f"DROP DATABASE {pipeline.name}_{each} WITH (FORCE)")


def captured(server, pipeline, *, kills, seed=7, kill_broker=None):
    """Change tables under kills of the worker and of the database in turn, and of the broker where that can be killed.

    Each kill falls into a burst of changes, once both connectors are at work. In the end both tables are equal.
    """
    draw = random.Random(seed)
    pipeline.change(draw, 60)
    pipeline.start()
    for number in range(kills):
        until_seen(pipeline, 1000 + number)
        for _ in range(5):
            pipeline.change(draw, draw.randrange(1, 20))
        if kill_broker is not None and number % 3 == 2:
            kill_broker()
        elif number % 2:
            server.stop()
            server.start()
        else:
            pipeline.kill()
            pipeline.change(draw, 10)
            pipeline.start()
    until_equal(pipeline)
    assert rows(pipeline, pipeline.here)
