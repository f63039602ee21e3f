"""Tables of a MariaDB, by change capture through topics, are the same in another database, whatever is killed."""

import os

import pytest
from tests.connect.scenes_cdc import captured
from tests.connect.scenes_maria import prepared, removed


@pytest.fixture
def pipeline(mariadb, bootstrap, tmp_path):
    made = prepared(mariadb, bootstrap, tmp_path, f"cdc{os.getpid()}")
    yield made
    removed(mariadb, made)


def test_tables_are_equal_after_kills_of_the_worker_and_of_the_database(pipeline, mariadb, at_length):
    captured(mariadb, pipeline, kills=12 if at_length else 2)
