"""An Iceberg table's columns: made by the first round, wider with later ones; a widened type rewrites older files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, TimeTransform
from pyiceberg.types import DecimalType, DoubleType, FloatType, IntegerType, LongType, PrimitiveType, StringType

from ottla.formats.columns import leaf_pairs, places
from ottla.lake.columns.evolution import Evolution, conform, evolve, plain_schema
from ottla.lake.columns.renamed import ColumnRename, moves, renamed_rows, renamed_schema
from ottla.lake.tables.base import TIME_UNITS
from ottla.lake.tables.iceberg_files import file_schema, read, tasks_of, write
from ottla.lake.tables.iceberg_place import CatalogPlace, IcebergTransaction
from ottla.lake.tables.partitions import check_partition_by, time_unit
from ottla.stores.base import LakeRefused

_TRANSFORMS: dict[str, TimeTransform[Any]] = {"month": MonthTransform(), "day": DayTransform(), "hour": HourTransform()}
_TYPES: dict[str, PrimitiveType] = {
    "int32": IntegerType(),
    "int64": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
}
TABLE_PROPERTIES = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""The library's own second try adds files again without asking whether the first one did: it stays off."""


class IcebergColumns:
    """Brings a table to a round's columns, through as many tries as others' commits make necessary."""

    def __init__(self, place: CatalogPlace, partition_by: tuple[str, ...], wanted: pa.Schema) -> None:
        check_partition_by(partition_by)
        self._place = place
        self._partition_by = partition_by
        self._wanted = wanted
        self._rewritten: dict[tuple[str, str], DataFile | None] = {}

    def check(self, table: Table | None) -> None:
        """LakeRefused where the table cannot be made, or cannot have the round's columns. Nothing is changed."""
        if table is None:
            _check_paths(self._first())
            return
        evolution, _ = self._evolution(table)
        _check_paths(evolution.schema)
        for task in tasks_of(table) if evolution.widened else ():
            for piece in read(table, task, table.schema()):
                conform(renamed_rows(piece, self._wanted), evolution.schema)

    def _first(self) -> pa.Schema:
        """The columns of a new table."""
        schema = plain_schema(self._wanted)
        for name in self._fields(schema):
            if pa.types.is_nested(schema.field(name).type):
                raise LakeRefused(f"a table cannot be partitioned by '{name}': it is not a plain column of the table")
        return schema

    def create(self) -> Table:
        """Make the table with its partitions in one commit; a racing creator's table raises Conflict."""
        schema = self._first()
        self._place.ensure_namespace()
        made = self._place.catalog().create_table_transaction(
            self._place.identifier, schema=schema, location=self._place.location, properties=TABLE_PROPERTIES
        )
        if self._partition_by:
            with made.update_spec() as spec:
                if unit := time_unit(self._partition_by):
                    spec.add_field("timestamp", _TRANSFORMS[unit], f"timestamp_{unit}")
                for name in self._fields(schema):
                    spec.add_field(name, IdentityTransform(), name)
        made.commit_transaction()
        return self._place.existing()

    def evolved(self, table: Table) -> Table:
        """The table with the round's columns, in one commit where it lacked some."""
        evolution, renamed = self._evolution(table)
        if not evolution.added and not evolution.widened and not renamed:
            return table
        self._apply(table, evolution, renamed)
        return self._place.existing()

    def _evolution(self, table: Table) -> tuple[Evolution, list[ColumnRename]]:
        """The columns that the table will have; LakeRefused where it cannot have them."""
        columns = plain_schema(table.schema().as_arrow())
        self._check_partitions(table.spec(), table, columns)
        renamed = moves(columns, self._wanted)
        evolution = evolve(renamed_schema(columns, self._wanted), self._wanted)
        sources = {table.schema().find_column_name(field.source_id) for field in table.spec().fields}
        for name in sorted(set(evolution.widened) & sources):
            raise LakeRefused(f"{self._place.name} is partitioned by '{name}', whose type cannot widen any more")
        for name in sorted({each.path[0] for each in renamed} & sources):
            raise LakeRefused(f"{self._place.name} is partitioned by '{name}', which cannot be renamed any more")
        return evolution, renamed

    def _apply(self, table: Table, evolution: Evolution, renamed: list[ColumnRename]) -> None:
        """Change the columns, and replace all files by copies in the wider types in the same commit.

        A copy outlives a try that conflicts with another commit: the next one copies only the files that are new.
        """
        before = renamed_schema(plain_schema(table.schema().as_arrow()), self._wanted)
        change = IcebergTransaction(table)
        if renamed:
            with change.update_schema() as update:
                for each in renamed:
                    update.rename_column(each.path, each.name)
        with change.update_schema(allow_incompatible_changes=bool(evolution.widened)) as update:
            for field in evolution.schema:
                known = before.get_field_index(field.name)
                if known >= 0:
                    _widen(update, (field.name,), before.field(known).type, field.type)
        with change.update_schema() as update:
            update.union_by_name(evolution.schema)
        if new := [entry for entry in self._fields(evolution.schema) if entry not in before.names]:
            with change.update_spec() as spec:
                for entry in new:
                    spec.add_field(entry, IdentityTransform(), entry)
        if evolution.widened and (tasks := tasks_of(table)):
            metadata = change.table_metadata
            schema = file_schema(metadata.schema())
            for task in tasks:
                name = (task.file.file_path, str(schema))
                if name not in self._rewritten:
                    pieces = read(table, task, table.schema())
                    rows = (conform(renamed_rows(piece, self._wanted), schema) for piece in pieces)
                    self._rewritten[name] = write(table, metadata, rows)
            with change.update_snapshot().overwrite() as snapshot:
                for task in tasks:
                    snapshot.delete_data_file(task.file)
                    if (copy := self._rewritten[task.file.file_path, str(schema)]) is not None:
                        snapshot.append_data_file(copy)
        change.commit_transaction()

    def _fields(self, columns: pa.Schema) -> list[str]:
        """The fields that divide a table of these columns: one that no record has had divides it once it comes."""
        return [name for name in self._partition_by if name not in TIME_UNITS and name in columns.names]

    def _check_partitions(self, spec: PartitionSpec, table: Table, columns: pa.Schema) -> None:
        unit = time_unit(self._partition_by)
        wanted = [("timestamp", str(_TRANSFORMS[unit]))] if unit else []
        wanted += [(name, "identity") for name in self._fields(columns)]
        held = [(table.schema().find_column_name(field.source_id), str(field.transform)) for field in spec.fields]
        if sorted(held) != sorted(wanted):
            text = ", ".join(f"{transform}({name})" for name, transform in held) or "nothing"
            raise LakeRefused(
                f"{self._place.name} is partitioned by {text}, not by {', '.join(self._partition_by) or 'nothing'}"
            )


def _check_paths(schema: pa.Schema) -> None:
    """LakeRefused where the name of a column is also the path of a member: the library tells fields by their paths."""
    taken: set[str] = set()
    for path in map(".".join, (steps for steps, _ in places(schema))):
        if path in taken:
            raise LakeRefused(
                f"an Iceberg table cannot have both a column '{path}' and a member of this path in an object: leave "
                f"one out by --exclude-fields, or load into --format delta"
            )
        taken.add(path)


def _widen(update: UpdateSchema, path: tuple[str, ...], before: pa.DataType, after: pa.DataType) -> None:
    """Give each widened leaf below a column its new type; its id stays, so that older snapshots still read."""
    for steps, narrow, wide in leaf_pairs(before, after, path):
        if narrow != wide:
            decimal = pa.types.is_decimal(wide)
            kind = DecimalType(wide.precision, wide.scale) if decimal else _TYPES[str(wide)]
            update.update_column(steps, field_type=kind)
