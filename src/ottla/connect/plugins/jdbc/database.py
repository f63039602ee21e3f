"""The database behind a `connection.url`: its address, its engine, its clock, and the errors that may pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from ottla.config.option import nearest
from ottla.connect.config_def import Password
from ottla.connect.errors import ConfigException, ConnectException, RetriableException

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine
    from sqlalchemy.exc import SQLAlchemyError

T = TypeVar("T")
_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
_PARAMETERS: Final = {
    "postgresql": {
        "sslmode": "sslmode", "sslrootcert": "sslrootcert", "sslcert": "sslcert", "sslkey": "sslkey",
        "ApplicationName": "application_name", "connectTimeout": "connect_timeout", "options": "options",
    },
    "mysql": {"connectTimeout": "connect_timeout", "characterEncoding": "charset"},
    "mariadb": {"connectTimeout": "connect_timeout", "characterEncoding": "charset"},
}  # fmt: skip
"""Parameters of Java's drivers that the Python drivers know by another name."""
MYSQL: Final = ("mysql", "mariadb")
"""The names of SQLAlchemy for the two products with one language."""
_SESSIONS: Final = {
    "postgresql": "SET TIME ZONE 'UTC'",
    # Without a strict mode the server cuts values off that do not fit, and says nothing.
    **dict.fromkeys(MYSQL, "SET time_zone = '+00:00', sql_mode = CONCAT_WS(',', @@sql_mode, 'STRICT_ALL_TABLES')"),
}
_OF_RECORD: Final = frozenset({1292, 1411, 1644, 3140, 3156, 3819, 4025, 4038, 4078, 4161})
"""Codes of MariaDB and MySQL for bad values. PyMySQL calls them operational, as a lost connection."""


def engine_of(options: dict[str, Any]) -> Engine:
    """An engine whose sessions count time in UTC, and refuse values that do not fit."""
    try:
        from sqlalchemy import create_engine, event
    except ImportError:
        raise ConfigException("the JDBC connectors need SQLAlchemy: pip install 'ottla[connect-sql]'") from None
    url = url_of(options["connection.url"], options["connection.user"], options["connection.password"])
    # The source needs a snapshot for each statement: see horizon.py. A database may have another default.
    more = {"isolation_level": "READ COMMITTED"} if url.get_backend_name() == "postgresql" else {}
    engine = create_engine(url, pool_pre_ping=True, **more)
    statement = _SESSIONS.get(engine.dialect.name)
    if statement is not None:

        @event.listens_for(engine, "connect")
        def _(connection: Any, _record: object) -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement)
            connection.commit()

    return engine


def url_of(text: str, user: str | None, password: Password | None) -> URL:
    """SQLAlchemy's address for one of JDBC. One that is SQLAlchemy's already is taken as it is."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = _translated(text[5:]) if text.startswith("jdbc:") else make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigException.of(
            "connection.url", "", "write jdbc:postgresql://HOST:PORT/DATABASE, or an address of SQLAlchemy"
        ) from None
    if user is not None:
        url = url.set(username=user)
    return url if password is None else url.set(password=password.value)


def _translated(text: str) -> URL:
    from sqlalchemy import URL

    product, _, rest = text.partition(":")
    if product == "sqlite":
        return URL.create("sqlite", database=rest)
    if product not in _DRIVERS:
        raise ConfigException(
            f"connection.url: jdbc:{product} is unknown{nearest(product, [*_DRIVERS, 'sqlite'])}; give SQLAlchemy's "
            "address of that database, without jdbc:, and install its driver"
        )
    parts = urlsplit("//" + rest.removeprefix("//"))
    query: dict[str, str] = {}
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    user, password = given.pop("user", parts.username), given.pop("password", parts.password)
    if product == "postgresql" and "currentSchema" in given:
        query["options"] = f"-csearch_path={given.pop('currentSchema')}"
    for name, value in given.items():
        known = _PARAMETERS[product]
        if name not in known:
            raise ConfigException(f"connection.url: the parameter {name} is unknown{nearest(name, known)}")
        query[known[name]] = value
    return URL.create(
        _DRIVERS[product], user, password, parts.hostname or "localhost", parts.port, parts.path[1:] or None, query
    )


def clock_of(dialect: str) -> str:
    """The SQL expression of the database's clock in UTC."""
    known = {
        "postgresql": "clock_timestamp()", "mysql": "UTC_TIMESTAMP(6)", "mariadb": "UTC_TIMESTAMP(6)",
        "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    }  # fmt: skip
    return known.get(dialect, "CURRENT_TIMESTAMP")


def may_pass(error: SQLAlchemyError) -> bool:
    """True for a lost connection, a lock or a deadlock: the same statement may succeed later."""
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

    if not isinstance(error, DBAPIError):
        return False
    if error.orig is not None and error.orig.args and error.orig.args[0] in _OF_RECORD:
        return False
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)


def raised(error: SQLAlchemyError) -> ConnectException:
    """The exception of Connect for one of the database, without the values that the statement had."""
    reason = str(getattr(error, "orig", None) or error).strip()
    return RetriableException(reason) if may_pass(error) else ConnectException(reason)


def asked(ask: Callable[[], T]) -> T:
    """The answer of the database; its errors become those of Connect."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return ask()
    except SQLAlchemyError as fault:
        raise raised(fault) from None
