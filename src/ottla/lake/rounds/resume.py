"""Restores the state of a lake that lost its `_ottla` folder from the progress in its Delta or Iceberg tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.lake.columns.json_columns import RESERVED, pack_schema
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.values import TEXT_COLUMNS, own_names
from ottla.lake.notes.plans import Commit
from ottla.lake.notes.state import LakeRecords
from ottla.lake.rounds.publishing import topic_table
from ottla.lake.rounds.settings import LoadSettings
from ottla.lake.tables import LakeTable, LoaderStanding
from ottla.stores.base import LakeRefused

_PREFIX = "value_"


@dataclass(frozen=True, slots=True)
class Resumed:
    """The loader that filled the tables, and its progress in them."""

    loader: str
    commit: Commit


def resumed(settings: LoadSettings, state: LakeRecords) -> Resumed | None:
    """The ends of the topics in the tables; None where the lake has its state, or no table holds anything.

    LakeRefused if two loaders filled the tables: a program cannot know which of the two to go on as.
    """
    if state.shape() is not None:
        return None
    if settings.shape.format == "parquet":
        raise LakeRefused("--resume-from-table needs Delta or Iceberg tables: plain files do not tell what was refused")
    if settings.shape.flatten:
        raise LakeRefused("--resume-from-table cannot tell the objects of values from the columns of --flatten")
    if settings.shape.debezium:
        raise LakeRefused("--resume-from-table cannot tell the columns of change events from those of the table")
    if not settings.selection.topics:
        raise LakeRefused("--resume-from-table needs the topics' names: a pattern may match topics of other lakes")
    tables = {topic: topic_table(settings.url, settings.shape, topic) for topic in settings.selection.topics}
    standings = {topic: table.standings() for topic, table in tables.items()}
    loaders = sorted({standing.loader for found in standings.values() for standing in found})
    if not loaders:
        return None
    if len(loaders) > 1:
        raise LakeRefused(
            f"the tables were filled by several loaders ({', '.join(loaders)}): it is not known which to continue"
        )
    return Resumed(
        loaders[0], _commit(settings.shape, tables, {topic: found[0] for topic, found in standings.items() if found})
    )


def _commit(shape: LakeShape, tables: dict[str, LakeTable], standings: dict[str, LoaderStanding]) -> Commit:
    offsets, rows, ids, columns = {}, {}, {}, {}
    for topic, standing in standings.items():
        offsets.update({TopicPartition(topic, each): offset for each, offset in standing.offsets.items()})
        rows.update({TopicPartition(topic, each): count for each, count in standing.rows.items()})
        ids[topic] = standing.topic_id if standing.topic_id != NO_TOPIC_ID else TopicId(NO_TOPIC_ID)
        if shape.columns:
            columns[topic] = pack_schema(value_columns(tables[topic].columns(), shape))
    return Commit(max(standing.number for standing in standings.values()), offsets, ids, rows, columns)


def value_columns(table: pa.Schema, shape: LakeShape) -> pa.Schema:
    """The fields that a table's columns were made of, under their own names.

    A field that divides the lake is left out: its folder's name does not tell its type, and the next values do.
    """
    if shape.values == "text":
        return TEXT_COLUMNS
    left_out = RESERVED | ({*shape.layout.fields} if not shape.whole_rows else set())
    kept = [each for each in table if each.name not in left_out]
    fields = pa.schema([(_own_name(each.name), each.type) for each in kept])
    if list(own_names(fields.names, shape).values()) != [each.name for each in kept]:
        raise LakeRefused("the table's columns are not those that a load makes: names that begin with value_")
    return fields


def _own_name(column: str) -> str:
    """A prefix was put before a name that the lake uses itself, once or, where that was taken, more often."""
    bare = column
    while bare.startswith(_PREFIX):
        bare = bare.removeprefix(_PREFIX)
    return bare if bare.casefold() in RESERVED else column
