"""Questions to the catalog of PostgreSQL: types, tables, the slot, the publication."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncConnection, sql

from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugins.capture.beginning import SlotState, lsn_of
from ottla.connect.plugins.capture.tables import Column, Selection, Table, TypeEntry
from ottla.connect.plugins.capture.types import PgType

_TYPES: Final = """
    SELECT t.oid::int8, t.typname, t.typtype, t.typelem::int8, t.typbasetype::int8, t.typtypmod, t.typdelim,
           t.typcategory = 'A' AND t.typelem <> 0 AND t.typname NOT IN ('int2vector', 'oidvector'),
           (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid)
    FROM pg_type t WHERE t.typtype IN ('b', 'd', 'e', 'r', 'm')"""
_TABLES: Final = """
    SELECT c.oid::int8, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relpersistence = 'p' AND {} ORDER BY n.nspname, c.relname"""
_LEAVES: Final = "c.relkind = 'r'"
_ROOTS: Final = "c.relkind IN ('r', 'p') AND NOT c.relispartition"
_COLUMNS: Final = """
    SELECT a.attname, a.atttypid::int8, a.atttypmod, NOT a.attnotnull,
           CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_KEY: Final = """
    SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = %s AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
    ORDER BY k.place"""
_SLOT: Final = "SELECT plugin, database, confirmed_flush_lsn::text, {} FROM pg_replication_slots WHERE slot_name = %s"
log = logging.getLogger("ottla.connect")


class Catalog:
    """One connection's view of the catalog."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.types: dict[int, TypeEntry] = {}

    async def rows(self, question: Any, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        return await (await self.connection.execute(question, values or None)).fetchall()

    async def learn_types(self) -> None:
        """Read all types: arrays and domains name others."""
        found = {row[0]: row for row in await self.rows(_TYPES)}
        self.types = {oid: _type(oid, found) for oid in found}

    async def tables(self, selection: Selection, *, roots: bool) -> dict[int, Table]:
        """The captured tables, with partitions or, for `roots`, in place of them what they are parts of."""
        found = await self.rows(_TABLES.format(_ROOTS if roots else _LEAVES))
        wanted = [(oid, schema, name) for oid, schema, name in found if selection.table(schema, name)]
        wanted.sort(key=lambda each: selection.order(each[1], each[2]))
        return {oid: await self.table(oid, schema, name) for oid, schema, name in wanted}

    async def table(self, oid: int, schema: str, name: str) -> Table:
        """One table; without columns where the catalog has none of this number any more."""
        columns = []
        for column, type_oid, modifier, optional, default in await self.rows(_COLUMNS, [oid]):
            if type_oid not in self.types:
                await self.learn_types()
            entry = self.types.get(type_oid, TypeEntry(PgType("unknown")))
            set_modifier = modifier if modifier >= 0 else entry.modifier
            columns.append(Column(column, entry.kind, set_modifier, optional, default))
        key = tuple(row[0] for row in await self.rows(_KEY, [oid]))
        return Table(schema, name, tuple(columns), key)

    async def slot(self, name: str) -> SlotState | None:
        """The slot of a name."""
        lost = "wal_status = 'lost'" if self.connection.info.server_version >= 130_000 else "false"
        found = await self.rows(_SLOT.format(lost), [name])
        if not found:
            return None
        plugin, database, confirmed, is_lost = found[0]
        if plugin is None:
            raise ConfigException(f"the replication slot {name} is physical: choose another slot.name")
        return SlotState(plugin, database, 0 if confirmed is None else lsn_of(confirmed), bool(is_lost))

    async def require_logical(self) -> None:
        """Refuse a server that writes no log for logical decoding."""
        ((level,),) = await self.rows("SELECT current_setting('wal_level')")
        if level != "logical":
            raise ConfigException(f"the server has wal_level={level}: set wal_level=logical and restart it")

    async def publish(self, options: Mapping[str, Any], tables: Sequence[Table]) -> None:
        """Make the publication, or add tables to it, as publication.autocreate.mode says."""
        name, mode = options["publication.name"], options["publication.autocreate.mode"]
        found = await self.rows("SELECT puballtables FROM pg_publication WHERE pubname = %s", [name])
        if mode == "disabled":
            if not found:
                raise ConfigException(f"the publication {name} does not exist: create it, or set another "
                                      "publication.autocreate.mode")  # fmt: skip
            return
        if mode == "filtered" and not tables:
            raise ConfigException("no table of the database is captured: see table.include.list, schema.include.list")
        named = sql.SQL(", ").join(sql.Identifier(each.schema, each.name) for each in tables)
        publication = sql.Identifier(name)
        if not found:
            what = {"all_tables": sql.SQL(" FOR ALL TABLES"), "no_tables": sql.SQL("")}
            which = what.get(mode, sql.SQL(" FOR TABLE ") + named)
            root = sql.SQL(" WITH (publish_via_partition_root = true)")
            more = root if options["publish.via.partition.root"] else sql.SQL("")
            await self.connection.execute(sql.SQL("CREATE PUBLICATION {}{}{}").format(publication, which, more))
            log.info("created the publication %s (%s)", name, mode)
        elif mode == "filtered":
            if found[0][0]:
                raise ConfigException(f"the publication {name} is for all tables: drop it, or set "
                                      "publication.autocreate.mode=all_tables")  # fmt: skip
            await self.connection.execute(sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(publication, named))

    async def unpublished(self, name: str, tables: Sequence[Table]) -> list[str]:
        """The captured tables whose changes a publication leaves out."""
        found = await self.rows("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", [name])
        known = set(found)
        return [each.full_name for each in tables if (each.schema, each.name) not in known]

    async def drop_slot(self, name: str) -> None:
        """Drop the slot."""
        try:
            await self.connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
        except Exception as fault:
            raise ConnectException(f"the replication slot {name} could not be dropped: {fault}") from fault


def _type(oid: int, found: Mapping[int, tuple[Any, ...]]) -> TypeEntry:
    _, name, kind, element, base, modifier, delimiter, is_array, labels = found[oid]
    if kind == "d" and base in found:
        inner = _type(base, found)
        return TypeEntry(inner.kind, modifier if modifier >= 0 else inner.modifier)
    if is_array and element in found:
        item = _type(element, found)
        return TypeEntry(PgType(name, kind, item.kind), item.modifier)
    return TypeEntry(PgType(name, kind, None, tuple(labels or ()), delimiter))
