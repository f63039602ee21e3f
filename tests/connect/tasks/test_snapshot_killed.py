"""A worker is killed while Spark's workers read a table: the next one misses no row, and goes on behind the table."""

import json
import subprocess
import sys
import time

import psycopg
import pytest

from ottla.testing.reading import read_topic

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
ROWS, GATE, KEY = 3_000, 1_000, 7
WITHIN_S = 300


@pytest.fixture
def gated(postgres_server):
    """A view of a table whose rows between `GATE` and the last wait for an advisory lock, which this session holds."""
    with psycopg.connect(**postgres_server.database(), autocommit=True) as session:
        session.execute("DROP SCHEMA IF EXISTS public CASCADE")
        session.execute("CREATE SCHEMA public")
        session.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY)")
        session.execute(f"INSERT INTO numbers SELECT generate_series(1, {ROWS})")
        session.execute(
            "CREATE FUNCTION passed(id INTEGER) RETURNS INTEGER LANGUAGE plpgsql STABLE AS $$ BEGIN "
            f"IF id > {GATE} AND id < {ROWS} THEN PERFORM pg_advisory_xact_lock_shared({KEY}); END IF; "
            "RETURN id; END $$"
        )
        session.execute("CREATE VIEW gated AS SELECT id, passed(id) AS passed FROM numbers")
        session.execute(f"SELECT pg_advisory_lock({KEY})")
        yield session


@pytest.mark.slow
@pytest.mark.spark
def test_a_worker_killed_in_a_snapshot_loses_no_row_and_the_next_one_polls_behind_it(
    gated, postgres, bootstrap, tmp_path, name
):
    worker = {
        "bootstrap.servers": bootstrap, "key.converter": STRING, "value.converter": JSON,
        "value.converter.schemas.enable": "false", "offset.storage.file.filename": tmp_path / "offsets",
        "offset.flush.interval.ms": "3600000",
    }  # fmt: skip
    source = {
        "name": name, "connector.class": "JdbcSource", "connection.url": postgres, "mode": "incrementing",
        "incrementing.column.name": "id", "validate.non.null": "false", "table.types": "VIEW",
        "topic.prefix": f"{name}-", "poll.interval.ms": "100", "ottla.runner": "spark", "spark.master": "local[2]",
    }  # fmt: skip
    files = [tmp_path / "worker.properties", tmp_path / "source.properties"]
    for file, properties in zip(files, (worker, source), strict=True):
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = [sys.executable, "-m", "ottla.cli.main", "connect", "start", *map(str, files)]

    first = subprocess.Popen(command)
    try:
        assert ids(bootstrap, f"{name}-gated", at_least=500)
    finally:
        first.kill()
        first.wait()
    assert not (tmp_path / "offsets").exists(), "the worker was killed within the snapshot"
    gated.execute(f"SELECT pg_advisory_unlock({KEY})")

    second = subprocess.Popen(command)
    try:
        until(lambda: kept(tmp_path) == {"incrementing": ROWS}, second)
        gated.execute(f"INSERT INTO numbers SELECT generate_series({ROWS + 1}, {ROWS + 5})")
        until(lambda: set(ids(bootstrap, f"{name}-gated")) == set(range(1, ROWS + 6)), second)
        second.terminate()
        assert second.wait() == 0
    finally:
        second.kill()
    assert sorted(each for each in ids(bootstrap, f"{name}-gated") if each > ROWS) == list(range(ROWS + 1, ROWS + 6))
    assert kept(tmp_path) == {"incrementing": ROWS + 5}


def kept(folder):
    """The offset that the worker keeps, None where it keeps none."""
    file = folder / "offsets"
    found = json.loads(file.read_text()) if file.exists() else []
    return found[0][1] if found else None


def ids(bootstrap, topic, at_least=1):
    """The ids in the topic, in their order there."""
    found = read_topic(bootstrap, topic, at_least=at_least, isolation_level="read_committed", timeout=WITHIN_S)
    return [json.loads(each.value)["id"] for each in found]


def until(true, process):
    end = time.monotonic() + WITHIN_S
    while not true():
        assert process.poll() is None, "the worker ended by itself"
        assert time.monotonic() < end, "the worker makes no progress"
        time.sleep(0.05)
