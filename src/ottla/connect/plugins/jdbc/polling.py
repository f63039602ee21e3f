"""The polls of one table or query: which rows are new, and their records. All blocks, in the task's own thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Engine,
    Select,
    String,
    and_,
    func,
    literal,
    or_,
    select,
    text,
    type_coerce,
)  # fmt: skip
from sqlalchemy import types as sql
from sqlalchemy.exc import SQLAlchemyError

from ottla.config.option import nearest
from ottla.connect.data import Schema, Struct, struct
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.jdbc.anchor import Anchor, RowOffsets
from ottla.connect.plugins.jdbc.columns import as_driven, datetime_of, micros_of, read_as, zone_of
from ottla.connect.plugins.jdbc.database import clock_of
from ottla.connect.plugins.jdbc.horizon import Horizon
from ottla.connect.plugins.jdbc.pieces import TablePiece, pieces_of
from ottla.connect.plugins.jdbc.reading import Readable
from ottla.connect.records import SourceRecord


class Poller:
    """Reads one table or query, batch after batch and poll after poll."""

    def __init__(
        self,
        engine: Engine,
        source: Readable,
        options: Mapping[str, Any],
        kept: Any,
        piece: TablePiece | None = None,
    ) -> None:
        """`piece` are the rows that are read, None for all."""
        self._engine, self._source, self._options, self._piece = engine, source, options, piece
        self._dialect = engine.dialect.name
        self._zone = ZoneInfo(options["db.timezone"])
        mode = options["mode"]
        self._id: Any = _incrementing(source, options) if "incrementing" in mode else None
        self._times = [_column(source, each, options) for each in options["timestamp.column.name"]] \
            if "timestamp" in mode else []  # fmt: skip
        self._by_time = bool(self._times)
        self.is_new = kept is None
        """True until a place in the table is known."""
        anchor = Anchor.of(kept)
        if kept is None and self._by_time and options["timestamp.initial"] is not None:
            anchor = Anchor(None, options["timestamp.initial"] * 1000)
        self._begin_behind(anchor)
        self._keeps_offsets = mode != "bulk" and piece is None
        self._horizon = Horizon(source.name) if self._dialect == "postgresql" and self._keeps_offsets else None
        self._schema, self._converts = self._columns()
        self._open: tuple[Connection, CursorResult[Any]] | None = None
        self.due = 0.0

    @property
    def partition(self) -> dict[str, Any]:
        """The partition of its offsets."""
        return self._source.partition

    def last_row(self) -> tuple[Anchor | None, bool]:
        """The last row that a poll would read now, None if there is none; and whether no row before it can be missing.

        While transactions in progress may still write such rows, this is to be asked again later.
        """
        with self._engine.connect() as connection:
            statement = self._statement(connection)
            if statement is None:
                return None, self._horizon is None or not self._horizon.waits
            backwards = [each.desc() for each in self._order()]
            row = connection.execute(statement.order_by(None).order_by(*backwards).limit(1)).first()
        return None if row is None else self._place(row), True

    def pieces(self, last: Anchor) -> list[TablePiece]:
        """Pieces with all rows up to that one."""
        offset = last.offset()
        return [each._replace(last=offset) for each in pieces_of(self._engine, self._source.columns, self._id)]

    def go_on_behind(self, last: Anchor | None) -> None:
        """Poll what comes behind a row that was read, with all before it, elsewhere; None: there was none."""
        self.is_new = False
        if last is not None:
            self._begin_behind(last)

    def page(self) -> tuple[list[SourceRecord], bool]:
        """The next rows of this poll, and whether the poll has ended."""
        try:
            if self._open is None and not self._begin():
                return [], True
            assert self._open is not None
            rows = self._open[1].fetchmany(self._options["batch.max.rows"])
        except BaseException:
            self.close()
            raise
        records = [self._record(row) for row in rows]
        ended = len(rows) < self._options["batch.max.rows"]
        if ended:
            self.close()
            last = self._progress.end()
            if records and self._keeps_offsets:
                records[-1].source_offset = last
        return records, ended

    def close(self) -> None:
        """End the statement and its transaction."""
        if self._open is not None:
            connection, self._open = self._open[0], None
            with suppress(SQLAlchemyError):  # a connection that is lost cannot be closed better
                connection.close()

    def _begin(self) -> bool:
        connection = self._engine.connect()
        try:
            statement = self._statement(connection)
            if statement is not None:
                result = connection.execution_options(
                    stream_results=True, max_row_buffer=self._options["batch.max.rows"]
                ).execute(statement)
                self._open = connection, result
        finally:
            if self._open is None:
                connection.close()
        return self._open is not None

    def _begin_behind(self, anchor: Anchor) -> None:
        self._progress = RowOffsets(anchor, by_time_alone=self._by_time and self._id is None)

    def _statement(self, connection: Connection) -> Select[Any] | None:
        """The rows of a poll in their order, None where none can be read yet."""
        found = select(*map(as_driven, self._source.rows.columns))
        if self._piece is not None:
            return found.where(*self._within(self._piece))
        if not self._order():
            return found
        known = self._known(connection)
        return None if known is None else found.where(known, *self._behind()).order_by(*self._order())

    def _order(self) -> list[ColumnElement[Any]]:
        """The columns that tell which row is later; none in the mode bulk."""
        return [*([self._moment()] if self._by_time else []), *([] if self._id is None else [self._id])]

    def _known(self, connection: Connection) -> ColumnElement[bool] | None:
        """The condition of rows that none can come before any more, None where that is not known yet."""
        bound = self._clock(connection) if self._by_time else self._greatest(connection)
        if self._horizon is not None:
            bound = self._horizon.passed(connection, bound)
        if bound is None:
            return None
        return self._moment() < self._bound(bound) if self._by_time else self._id <= bound

    def _greatest(self, connection: Connection) -> Any:
        return connection.execute(select(func.max(self._id))).scalar()

    def _behind(self) -> list[ColumnElement[bool]]:
        """The condition of rows behind the last one that was read."""
        last = self._progress.anchor
        if not self._by_time:
            return [] if last.incrementing is None else [self._id > last.incrementing]
        if last.micros is None:
            return []
        moment, at = self._moment(), self._bound(last.micros)
        if self._id is None or last.incrementing is None:
            return [moment > at]
        return [or_(moment > at, and_(moment == at, self._id > last.incrementing))]

    def _within(self, piece: TablePiece) -> list[ColumnElement[bool]]:
        """The conditions of a piece."""
        found: list[ColumnElement[bool]] = []
        if piece.key is not None:
            key = self._source.rows.columns[piece.key]
            found += [*([] if piece.low is None else [key >= piece.low])]
            found += [*([] if piece.high is None else [key < piece.high])]
        if piece.last is not None:
            found += [self._up_to(Anchor.of(piece.last)), *self._behind()]
        return found

    def _up_to(self, last: Anchor) -> ColumnElement[bool]:
        """The condition of a row and of those before it."""
        if last.micros is None:
            within: ColumnElement[bool] = self._id <= last.incrementing
            return within
        moment, at = self._moment(), self._bound(last.micros)
        if self._id is None:
            return moment <= at
        return or_(moment < at, and_(moment == at, self._id <= last.incrementing))

    def _clock(self, connection: Connection) -> int:
        """The database's time less the delay. Columns of whole seconds get more rows until the second is over."""
        found = connection.execute(text(f"SELECT {clock_of(self._dialect)}")).scalar()
        moment = datetime.fromisoformat(found) if isinstance(found, str) else found
        assert isinstance(moment, datetime)
        micros: int = micros_of(moment, ZoneInfo("UTC")) - self._options["timestamp.delay.interval.ms"] * 1000
        return micros if self._dialect == "postgresql" else micros // 1_000_000 * 1_000_000

    def _moment(self) -> ColumnElement[Any]:
        columns: list[ColumnElement[Any]] = list(self._times)
        if self._dialect == "sqlite":  # times are text there, with any number of digits: milliseconds count
            columns = [func.strftime("%Y-%m-%d %H:%M:%f", type_coerce(each, String)) for each in columns]
        return columns[0] if len(columns) == 1 else func.coalesce(*columns)

    def _bound(self, micros: int) -> ColumnElement[Any]:
        kind = self._times[0].type
        value = datetime_of(micros, zone_of(kind, self._zone), aware=bool(getattr(kind, "timezone", False)))
        if self._dialect == "sqlite":
            return literal(value.isoformat(sep=" ", timespec="milliseconds"), String())
        return literal(value, kind)

    def _columns(self) -> tuple[Schema, list[Callable[[Any], Any]]]:
        read = [
            read_as(
                each.type, each.name, self._dialect, numbers=self._options["numeric.mapping"],
                grain=self._options["timestamp.granularity"], db_zone=self._zone,
            )
            for each in self._source.columns.columns
        ]  # fmt: skip
        fields = [
            (column.name, schema.but(optional=True) if column.nullable else schema)
            for column, (schema, _) in zip(self._source.columns.columns, read, strict=True)
        ]
        return struct(fields, name=self._source.schema_name), [convert for _, convert in read]

    def _record(self, row: Sequence[Any]) -> SourceRecord:
        values = [None if value is None else convert(value) for value, convert in zip(row, self._converts, strict=True)]
        made = SourceRecord(self._source.topic, value_schema=self._schema, value=Struct(self._schema, values))
        if self._keeps_offsets:
            place = self._place(row)
            made.source_partition, made.source_offset = self.partition, self._progress.row(place)
        return made

    def _place(self, row: Sequence[Any]) -> Anchor:
        by_name = dict(zip(self._source.columns.columns.keys(), row, strict=True))
        identity = None if self._id is None else int(by_name[self._id.key])
        column = next((each for each in self._times if by_name[each.key] is not None), None)
        if column is None:
            return Anchor(identity)
        micros = micros_of(by_name[column.key], zone_of(column.type, self._zone))
        return Anchor(identity, micros // 1000 * 1000 if self._dialect == "sqlite" else micros)


def _column(source: Readable, name: str, options: Mapping[str, Any]) -> Any:
    columns = source.columns.columns
    if name not in columns:
        raise ConfigException(f"{source.name} has no column {name}{nearest(name, columns.keys())}: it has "
                              f"{', '.join(columns.keys())}")  # fmt: skip
    found = columns[name]
    several = len(options["timestamp.column.name"]) > 1 and name in options["timestamp.column.name"]
    # A database does not tell which columns of a query are never null.
    if options["validate.non.null"] and found.nullable and not several and not source.is_query:
        raise ConfigException(
            f"the column {name} of {source.name} may be null, and rows without it are never read: declare it NOT NULL, "
            "or set validate.non.null=false"
        )
    if name in options["timestamp.column.name"] and not isinstance(found.type, sql.DateTime):
        raise ConfigException(f"the column {name} of {source.name} is of the type {found.type}, not a timestamp")
    return source.rows.columns[name]


def _incrementing(source: Readable, options: Mapping[str, Any]) -> Any:
    name = options["incrementing.column.name"]
    if name:
        return _column(source, name, options)
    keys = [each for each in source.columns.primary_key.columns if isinstance(each.type, sql.Integer)]
    if len(source.columns.primary_key.columns) != 1 or not keys:
        raise ConfigException(
            f"{source.name} has no primary key of one whole number: name its incrementing.column.name"
        )
    return source.rows.columns[keys[0].name]
