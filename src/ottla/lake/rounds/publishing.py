"""A round's files become visible: by their names in plain Parquet, by a table's commit in Delta and Iceberg.

Called from a durable publication on; every call may be repeated after a kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.lake.columns.evolution import CannotWiden, conform
from ottla.lake.columns.exact import becoming_double
from ottla.lake.columns.json_columns import unpack_schema
from ottla.lake.columns.layout import folder_of
from ottla.lake.columns.meeting import check_held, met
from ottla.lake.columns.renamed import renamed_rows
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.values import columns_of_rows, lake_columns
from ottla.lake.notes import schema_file
from ottla.lake.notes.plans import Commit, LakeFile, Publication
from ottla.lake.notes.state import HOME
from ottla.lake.rounds.changes import key_columns, row_names, staged_schema
from ottla.lake.tables import LakeTable, TableFile, TableRound, open_table
from ottla.stores.base import LakeRefused, Store

_NOTHING = "Nothing of this round was loaded"


class RoundPublisher(Protocol):
    """Makes rounds visible."""

    def begin(self, topic: str) -> None:
        """LakeRefused where rows of a topic are there already that the lake's state does not know of."""

    def check(self, publication: Publication, before: Commit) -> None:
        """LakeRefused where a round cannot be shown, while it is not published yet; the lake stands at `before`."""

    def show(self, publication: Publication, after: Commit) -> None:
        """Show a round's files, all of them and once; the lake will stand at `after`."""


def publisher(shape: LakeShape, store: Store, loader: str) -> RoundPublisher:
    """The way of the lake's format."""
    return PlainFiles(shape, store) if shape.format == "parquet" else TablePublisher(shape, store.url, loader)


class PlainFiles:
    """A file is visible under its final name, after the schema file that tells of its columns."""

    def __init__(self, shape: LakeShape, store: Store) -> None:
        self._shape = shape
        self._store = store

    def begin(self, topic: str) -> None:
        if any(entry.name.endswith(".parquet") for entry in self._store.entries(folder_of(topic))):
            raise LakeRefused(
                f"{self._store.url}/{folder_of(topic)} holds files of which the lake's state knows nothing: their rows "
                f"would be there twice. Was _ottla removed? Load into another directory"
            )
        self._store.remove([schema_file.name_of(topic)])  # of files that another program has removed since

    def check(self, publication: Publication, before: Commit) -> None:
        for topic, columns in _known(publication, before, self._shape):
            held = schema_file.read(self._store, topic)
            if held is not None:
                _check_held(topic, columns, held.columns, self._shape)
                self._check_values(topic, held.columns, _file_schema(topic, publication, self._shape))

    def _check_values(self, topic: str, held: pa.Schema, wanted: pa.Schema) -> None:
        """CannotWiden where older files hold whole numbers that cannot become doubles: nobody could read all files.

        The notes of a lake of an earlier version do not name such columns.
        """
        names = {path[0] for path in becoming_double(held, wanted)}
        for entry in self._store.entries(folder_of(topic)) if names else ():
            if not entry.name.endswith(".parquet"):
                continue
            with self._store.open_input(entry.name) as source:
                file = pq.ParquetFile(source)
                present = [name for name in file.schema_arrow.names if name in names]
                for batch in file.iter_batches(columns=present) if present else ():
                    rows = renamed_rows(pa.Table.from_batches([batch]), wanted)
                    try:
                        conform(rows, pa.schema([wanted.field(name) for name in rows.column_names]))
                    except CannotWiden as fault:
                        raise CannotWiden(fault.column, f"{fault} (topic {topic}). {_NOTHING}", topic) from fault

    def show(self, publication: Publication, after: Commit) -> None:
        schema_file.write(self._store, self._shape, publication)
        self._store.reveal([file.move for file in publication.files])


class TablePublisher:
    """A file is visible once its table's log names it: one commit a topic and round."""

    def __init__(self, shape: LakeShape, url: str, loader: str) -> None:
        self._shape = shape
        self._url = url
        self._loader = loader
        self._tables: dict[str, LakeTable] = {}

    def begin(self, topic: str) -> None:
        if f"{topic}/" in (HOME, "_delta_log/"):
            raise LakeRefused(f"topic {topic} cannot be a table: a folder of this name has another meaning in a lake")
        if self._table(topic).standings():
            raise LakeRefused(
                f"the table of {topic} holds rounds of which the lake's state knows nothing: its rows would be there "
                f"twice. Where the state was lost, remove what is left of {self._url}/_ottla and name all topics of "
                f"the lake with --resume-from-table"
            )

    def check(self, publication: Publication, before: Commit) -> None:
        for topic, columns in _known(publication, before, self._shape):
            if not self._shape.debezium and met(columns.names, table=True):
                _check_held(topic, columns, self._table(topic).columns(), self._shape)
        after = before.after(publication)
        for topic in sorted({count.span.topic for count in publication.counts}):
            if topic in before.topic_ids and publication.columns.get(topic) == before.columns.get(topic):
                continue
            try:
                self._table(topic).check(self._round(topic, publication, after))
            except CannotWiden as fault:
                raise CannotWiden(fault.column, f"{fault} (topic {topic}). {_NOTHING}", topic) from fault
            except LakeRefused as fault:
                raise LakeRefused(f"{fault} (topic {topic}). {_NOTHING}") from fault

    def show(self, publication: Publication, after: Commit) -> None:
        for topic in sorted({count.span.topic for count in publication.counts}):
            table = self._table(topic)
            done = self._round(topic, publication, after)
            if self._shape.key:
                columns = _columns(topic, publication, self._shape)
                table.commit_keyed(done, key_columns(row_names(columns, self._shape), self._shape))
            else:
                table.commit(done)

    def _table(self, topic: str) -> LakeTable:
        if topic not in self._tables:
            self._tables[topic] = topic_table(self._url, self._shape, topic)
        return self._tables[topic]

    def _round(self, topic: str, publication: Publication, after: Commit) -> TableRound:
        return TableRound(
            loader=self._loader,
            number=publication.plan.number,
            topic=topic,
            schema=staged_schema(_file_schema(topic, publication, self._shape), self._shape),
            files=tuple(self._file(file) for file in publication.files if file.written.topic == topic),
            offsets={each.partition: offset for each, offset in after.offsets.items() if each.topic == topic},
            rows={each.partition: rows for each, rows in after.rows.items() if each.topic == topic},
            topic_id=after.topic_ids[topic],
            unavailable=self._shape.unavailable if self._shape.debezium else "",
        )

    def _file(self, file: LakeFile) -> TableFile:
        values = tuple(zip(self._shape.layout.columns, file.written.values, strict=True))
        return TableFile(file.final, file.written.rows, file.written.bytes, values)


def _known(publication: Publication, before: Commit, shape: LakeShape) -> Iterator[tuple[str, pa.Schema]]:
    """The topics of a round that the lake has columns of already, with those of their rows."""
    for topic in sorted(publication.columns):
        if topic in before.columns:
            yield topic, columns_of_rows(topic, unpack_schema(before.columns[topic]), shape)


def _file_schema(topic: str, publication: Publication, shape: LakeShape) -> pa.Schema:
    return schema_file.file_schema(_columns(topic, publication, shape), shape)


def _check_held(topic: str, columns: pa.Schema, held: pa.Schema, shape: LakeShape) -> None:
    named = [each.name for each in lake_columns(columns, shape).values()]
    check_held(topic, columns, named, held.names, table=shape.format != "parquet")


def _columns(topic: str, publication: Publication, shape: LakeShape) -> pa.Schema | None:
    """The columns of a topic's rows after a round; None where values stay bytes."""
    packed = publication.columns.get(topic)
    return None if packed is None else columns_of_rows(topic, unpack_schema(packed), shape)


def topic_table(url: str, shape: LakeShape, topic: str) -> LakeTable:
    """The table of a topic in a lake."""
    return open_table(
        url,
        shape.format,
        topic,
        partition_by=shape.layout.partition_by,
        catalog=shape.catalog,
        namespace=shape.namespace,
    )
