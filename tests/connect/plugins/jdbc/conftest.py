"""Databases without tables: on SQLite, on PostgreSQL and on MariaDB."""

import pytest
from tests.connect.mariadb_server import ask as mariadb_ask
from tests.connect.plugins.jdbc.asking import ask


@pytest.fixture
def sqlite(tmp_path):
    return f"jdbc:sqlite:{tmp_path}/db"


@pytest.fixture
def fresh(postgres):
    ask(postgres, "DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
    return postgres


@pytest.fixture
def maria(mariadb):
    mariadb_ask(mariadb.database(), "DROP DATABASE IF EXISTS polled", "CREATE DATABASE polled")
    return mariadb.url("polled")


@pytest.fixture(params=["sqlite", "fresh", "maria"])
def database(request):
    return request.getfixturevalue(request.param)
