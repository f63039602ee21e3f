"""The place of an Iceberg table: the catalog behind a URL, the lake's files, the library's errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationError,
    ValidationException,
)
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import SQLAlchemyError

from ottla.lake.tables.attempts import CommitConflict, CommitUnknown
from ottla.stores import catalog_url, local_path
from ottla.stores.base import LakeRefused

CATALOG_NAME = "ottla"
"""The name under which a SQL catalog keeps its tables, and under which the library looks for settings of its own
(`PYICEBERG_CATALOG__OTTLA__TOKEN` and the like), where credentials of a REST catalog belong."""

_OPEN: WeakValueDictionary[tuple[tuple[str, str], ...], Catalog] = WeakValueDictionary()
"""Catalogs that a table of this process has open, by their properties: opening one costs as much as a commit."""


class CatalogPlace:
    """One table's place in a catalog, and its folder in the lake."""

    def __init__(self, lake_url: str, topic: str, catalog: str, namespace: str) -> None:
        if not catalog:
            raise LakeRefused(
                "--format iceberg needs --catalog URL: sqlite:////path/catalog.db, postgresql://… or http(s)://…"
            )
        self.lake = location_of(lake_url)
        self.location = f"{self.lake}/{topic}"
        self.identifier = (*namespace.split("."), topic)
        self._properties = catalog_properties(catalog, lake_url)
        self._catalog: Catalog | None = None

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = _opened(self._properties)
        return self._catalog

    def load(self) -> Table | None:
        """The table as it is now; None where there is none."""
        try:
            return self.catalog().load_table(self.identifier)
        except NoSuchTableError:
            return None
        except ValidationError as fault:
            raise LakeRefused(f"the metadata of the Iceberg table {self.name} is damaged: {fault}") from fault

    def existing(self) -> Table:
        """The table as it is now, which was there a moment ago."""
        table = self.load()
        if table is None:
            raise LakeRefused(f"there is no Iceberg table {self.name} any more")
        return table

    def ensure_namespace(self) -> None:
        try:
            self.catalog().create_namespace_if_not_exists(self.identifier[:-1])
        except NamespaceAlreadyExistsError:
            return


def _opened(properties: dict[str, str]) -> Catalog:
    """The catalog of these properties, which all tables of a load share."""
    key = tuple(sorted(properties.items()))
    catalog = _OPEN.get(key)
    if catalog is None:
        catalog = load_catalog(CATALOG_NAME, **properties)
        if isinstance(catalog, SqlCatalog):
            # A connection is closed after each use: a pool would hold one to a file that was replaced meanwhile.
            catalog.engine.dispose()
            catalog.engine = create_engine(catalog.engine.url, echo=catalog.engine.echo, poolclass=NullPool)
        _OPEN[key] = catalog
    return catalog


class IcebergTransaction(Transaction):
    """A transaction that makes the metadata of its updates once.

    The library makes it anew at each of a dozen questions in a commit, with a deep copy of every snapshot.
    """

    _made: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        base, updates = self._table.metadata, self._updates
        if self._made is None or self._made[0] is not base or self._made[1] is not updates:
            self._made = (base, updates, super().table_metadata)
        return self._made[2]


def catalog_properties(catalog: str, lake_url: str) -> dict[str, str]:
    """Properties for opening a catalog and the lake's files; LakeRefused where it cannot."""
    url = catalog_url(catalog)
    if url.lower().startswith(("http://", "https://")):
        found = {"type": "rest", "uri": url}
    else:
        found = {"type": "sql", "uri": url.replace("postgres://", "postgresql://", 1)}
    return found | {"warehouse": location_of(lake_url)} | _file_properties(lake_url)


def location_of(lake_url: str) -> str:
    """The lake's place as the library writes it: a local path with its own characters, where a URL has `%20`."""
    if not lake_url.startswith("file://"):
        return lake_url.rstrip("/")
    path = str(local_path(lake_url)).rstrip("/")
    if "#" in path or "?" in path:
        raise LakeRefused(f"an Iceberg table cannot lie in {path}: pyiceberg cuts a path at # and ?")
    return f"file://{path}"


def _file_properties(lake_url: str) -> dict[str, str]:
    scheme = lake_url.partition(":")[0]
    if scheme == "file":
        return {"py-io-impl": "ottla.lake.tables.iceberg_io.DurableFileIO"}
    if scheme == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
        return {name: value for name, value in (("s3.endpoint", endpoint), ("s3.region", region)) if value}
    if scheme == "gs":
        return {}
    raise LakeRefused(
        f"an Iceberg table cannot lie on {scheme}:// : pyiceberg needs a JVM's libraries or names of its own there. "
        "Use --format delta, or a lake on file, s3 or gs"
    )


@contextmanager
def told_apart() -> Iterator[None]:
    """The library's errors by their meaning here: another commit came first, refused for good, or unknown."""
    try:
        yield
    except (CommitFailedException, TableAlreadyExistsError, ValidationException) as fault:
        raise CommitConflict(str(fault)) from fault
    except (BadRequestError, UnauthorizedError, ForbiddenError, ValueError) as fault:
        raise LakeRefused(f"the Iceberg table refuses this: {fault}") from fault
    except (CommitConflict, CommitUnknown):
        raise
    except (RESTError, SQLAlchemyError, OSError) as fault:
        raise CommitUnknown(str(fault)) from fault
