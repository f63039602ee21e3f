"""Tables of a database, by change capture through topics, are the same tables in another one, whatever is killed."""

import os
import time

import pytest
from tests.connect.plugins.capture.scenario import ask
from tests.connect.scenes_cdc import captured, prepared, removed


@pytest.fixture
def pipeline(postgres_server, bootstrap, tmp_path):
    made = prepared(postgres_server, bootstrap, tmp_path, f"cdc{os.getpid()}")
    yield made
    removed(postgres_server, made)


def test_tables_are_equal_after_kills_of_the_worker_and_restarts_of_the_database(pipeline, postgres_server, at_length):
    captured(postgres_server, pipeline, kills=12 if at_length else 2)
    confirmed = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{pipeline.name}'"
    before = ask(pipeline.here, confirmed)
    ask(pipeline.here, "CREATE TABLE other (id int)", "INSERT INTO other SELECT generate_series(1, 100)")
    ((end,),) = ask(pipeline.here, "SELECT pg_current_wal_lsn()")
    while not ask(pipeline.here, f"SELECT '{ask(pipeline.here, confirmed)[0][0]}'::pg_lsn >= '{end}'::pg_lsn")[0][0]:
        assert pipeline.process.poll() is None, pipeline.log()  # the slot follows the log where no captured table does
        time.sleep(0.05)
    assert before != ask(pipeline.here, confirmed)
