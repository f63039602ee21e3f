"""The schema file of a topic in plain Parquet, `topic=T/_schema.json`: its present and former columns.

Columns come and widen while older files stay as they are. The schema file tells a reader the types that hold all
values of all files, and from which round on files have which columns. It is written before files that need it appear.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from ottla.lake.columns.json_columns import pack_schema, unpack_schema
from ottla.lake.columns.layout import folder_of
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.values import columns_of_rows, lake_columns, row_columns, same_columns
from ottla.lake.notes.plans import Publication
from ottla.stores.base import LakeRefused, Store

FORMAT = 1


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """The columns of a topic's files; `versions` are pairs of the first round and its files' columns."""

    topic: str
    versions: tuple[tuple[int, pa.Schema], ...]
    partition_columns: pa.Schema
    """The columns that folder names hold."""

    @property
    def columns(self) -> pa.Schema:
        """The columns of the newest files, whose types hold the values of all older ones too."""
        return self.versions[-1][1]

    def at(self, number: int) -> pa.Schema:
        """The columns of the files of a round."""
        return next(schema for first, schema in reversed(self.versions) if first <= number)


def file_schema(columns: pa.Schema | None, shape: LakeShape) -> pa.Schema:
    """The columns of a file: the record's own around those of its value.

    Fields that divide the lake are left out unless files hold whole rows, or change events, which have no such fields.
    """
    whole = row_columns(columns, shape)
    if columns is None or shape.whole_rows or shape.debezium:
        return whole
    held = lake_columns(columns, shape)
    left_out = {held[name].name for name in shape.layout.fields if name in held}
    return pa.schema([field for field in whole if field.name not in left_out])


def folder_schema(columns: pa.Schema | None, shape: LakeShape) -> pa.Schema:
    """The columns that the folders' names hold: a day is a date, an hour a number, a field what its values are."""
    kinds = {"date": pa.date32(), "hour": pa.int32(), "month": pa.string()}
    held = {} if columns is None else lake_columns(columns, shape)
    for name in shape.layout.fields:
        kinds[name] = held[name].type if name in held else pa.string()
    return pa.schema([(name, kinds[name]) for name in shape.layout.columns])


def name_of(topic: str) -> str:
    """The schema file's name in the lake; readers of the files pass over names with an underscore."""
    return f"{folder_of(topic)}_schema.json"


def write(store: Store, shape: LakeShape, publication: Publication) -> None:
    """Write the schema of each topic whose files have other columns from this round on.

    A round without files may have changed the columns before. May be repeated, also by a late loader.
    """
    for topic in sorted({file.written.topic for file in publication.files}):
        packed = publication.columns.get(topic)
        known = read(store, topic)
        number = publication.plan.number
        columns = None if packed is None else columns_of_rows(topic, unpack_schema(packed), shape)
        schema, folders = file_schema(columns, shape), folder_schema(columns, shape)
        if known is not None and same_columns(known.columns, schema) and same_columns(known.partition_columns, folders):
            continue
        if known is not None and known.versions[-1][0] >= number:
            continue  # written before a kill; or this loader has lost the lake, and another has gone on from here
        older = known.versions if known else ()
        _put(store, TopicSchema(topic, (*older, (number, schema)), folders))


def read(store: Store, topic: str) -> TopicSchema | None:
    """The topic's schema; None where none of its records are in the lake."""
    body = store.read(name_of(topic))
    if body is None:
        return None
    try:
        stored = json.loads(body)
        if stored["format"] != FORMAT:
            raise LakeRefused(f"{name_of(topic)} has format {stored['format']}; this program knows {FORMAT}")
        versions = tuple((int(each["from_round"]), unpack_schema(each["arrow"])) for each in stored["versions"])
        return TopicSchema(topic, versions, unpack_schema(stored["partition_arrow"]))
    except (ValueError, KeyError, TypeError) as fault:
        raise LakeRefused(f"{store.url}/{name_of(topic)} is damaged: {fault}") from fault


def _put(store: Store, schema: TopicSchema) -> None:
    content: Mapping[str, object] = {
        "format": FORMAT,
        "topic": schema.topic,
        "columns": [{"name": each.name, "type": str(each.type)} for each in schema.columns],
        "partition_columns": [{"name": each.name, "type": str(each.type)} for each in schema.partition_columns],
        "partition_arrow": pack_schema(schema.partition_columns),
        "versions": [{"from_round": first, "arrow": pack_schema(each)} for first, each in schema.versions],
    }
    store.replace(name_of(schema.topic), json.dumps(content, indent=1).encode())
