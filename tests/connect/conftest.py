"""A PostgreSQL server for the tests of connectors, where the distribution's package is."""

import pytest
from tests.conftest import NO_POSTGRES
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
