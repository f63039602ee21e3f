"""A PostgreSQL and a MariaDB server for the tests of connectors, where the distribution's packages are."""

import pytest
from tests.conftest import NO_MARIADB, NO_POSTGRES
from tests.connect import mariadb_server
from tests.connect.postgres_server import a_server, programs


@pytest.fixture(scope="session")
def postgres_server():
    if programs() is None:
        pytest.skip(NO_POSTGRES)
    with a_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres(postgres_server):
    return postgres_server.url


@pytest.fixture(scope="session")
def mariadb():
    if not mariadb_server.is_here():
        pytest.skip(NO_MARIADB)
    with mariadb_server.a_server() as server:
        yield server
