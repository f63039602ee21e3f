"""Sessions of PostgreSQL for change capture, and their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.plugins.capture.literals import SESSION

if TYPE_CHECKING:
    from psycopg import AsyncConnection


async def connected(options: Mapping[str, Any], **more: str) -> AsyncConnection[Any]:
    """A connection whose session writes values as `literals` reads them."""
    try:
        from psycopg import AsyncConnection
    except ImportError:
        raise ConfigException("the Postgres connector needs psycopg: pip install 'ottla[connect-sql]'") from None
    given = {
        "host": options["database.hostname"], "port": options["database.port"], "user": options["database.user"],
        "dbname": options["database.dbname"], "sslmode": options["database.sslmode"],
        "sslcert": options["database.sslcert"], "sslkey": options["database.sslkey"],
        "sslrootcert": options["database.sslrootcert"], "application_name": "ottla", "options": SESSION,
    }  # fmt: skip
    for name, option in (("password", "database.password"), ("sslpassword", "database.sslpassword")):
        given[name] = None if options[option] is None else options[option].value
    named = {name: value for name, value in {**given, **more}.items() if value is not None}
    connection = await AsyncConnection.connect(**named, autocommit=True)
    if not more and options["database.initial.statements"]:
        await connection.execute(options["database.initial.statements"])
    return connection


def known(fault: Exception) -> Exception:
    """An error of the database as one of Connect; those that may pass are retriable."""
    from psycopg import Error, InterfaceError, OperationalError

    if not isinstance(fault, Error):
        return fault
    kind = RetriableException if isinstance(fault, OperationalError | InterfaceError) else ConnectException
    return kind(str(fault).strip())
