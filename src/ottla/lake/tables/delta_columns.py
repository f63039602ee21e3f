"""A Delta table's columns: made by the first round, wider with later ones.

A widened type, or a new name, rewrites older files.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import DeltaError
from deltalake.schema import Schema
from deltalake.transaction import AddAction

from ottla.lake.columns.evolution import Evolution, conform, evolve, plain_schema
from ottla.lake.columns.renamed import ColumnRename, moves, renamed_rows, renamed_schema
from ottla.lake.tables.delta_files import files_of, pieces_of, rewrite
from ottla.lake.tables.delta_place import DeltaPlace
from ottla.stores.base import LakeRefused

CHECKPOINT_EVERY = 20
HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class DeltaColumns:
    """Brings a table to a round's columns, through as many tries as others' commits make necessary."""

    def __init__(self, place: DeltaPlace, partition_columns: tuple[str, ...], wanted: pa.Schema) -> None:
        self._place = place
        self._partition_columns = partition_columns
        self._wanted = wanted
        self._rewritten: dict[tuple[str, str], AddAction | None] = {}

    def check(self, table: DeltaTable | None) -> None:
        """LakeRefused where the table cannot be made, or cannot have the round's columns. Nothing is changed."""
        if table is None:
            self._first()
            return
        evolution = self._evolution(table)
        if not evolution.widened:
            return
        inside = self._inside(evolution.schema)
        for file in files_of(table):
            for rows in pieces_of(self._place.files(), file):
                conform(renamed_rows(rows, self._wanted), inside)

    def create(self) -> DeltaTable:
        """Make the table; of racing creators one makes it, the others find it."""
        columns = self._first()
        try:
            DeltaTable.create(
                self._place.url,
                schema=Schema.from_arrow(columns),
                partition_by=list(self._partition_columns),
                storage_options=self._place.options,
                configuration={"delta.checkpointInterval": str(CHECKPOINT_EVERY)},
            )
        except DeltaError:
            if self._place.load() is None:
                raise
        table = self._place.existing()
        self._place.make_durable(0)
        return table

    def _first(self) -> pa.Schema:
        """The columns of a new table."""
        missing = [name for name in self._partition_columns if name not in self._wanted.names]
        columns = plain_schema(pa.schema([*self._wanted, *(pa.field(name, pa.string()) for name in missing)]))
        for name in self._partition_columns:
            if pa.types.is_nested(columns.field(name).type) or pa.types.is_floating(columns.field(name).type):
                raise LakeRefused(f"a table cannot be partitioned by '{name}': it is {columns.field(name).type}")
        return columns

    def evolved(self, table: DeltaTable) -> DeltaTable:
        """The table with the round's columns, in one commit where it lacked some."""
        evolution = self._evolution(table)
        if evolution.widened or self._renamed(table):
            self._rewrite(table, evolution.schema)
        elif evolution.added:
            fields = [field for field in Schema.from_arrow(evolution.schema).fields if field.name in evolution.added]
            once = CommitProperties(max_commit_retries=0)
            table.alter.add_columns(fields, commit_properties=once, post_commithook_properties=HOOKS)
        else:
            return table
        evolved = self._place.existing()
        self._place.make_durable(evolved.version())
        return evolved

    def _evolution(self, table: DeltaTable) -> Evolution:
        """The columns that the table will have; LakeRefused where it cannot have them."""
        held = tuple(table.metadata().partition_columns)
        if held != self._partition_columns:
            raise LakeRefused(
                f"{self._place.url} is partitioned by {', '.join(held) or 'nothing'}, "
                f"not by {', '.join(self._partition_columns) or 'nothing'}"
            )
        renamed = self._renamed(table)
        evolution = evolve(renamed_schema(plain_schema(pa.schema(table.schema())), self._wanted), self._wanted)
        for name in sorted(set(evolution.widened) & set(held)):
            raise LakeRefused(f"{self._place.url} is partitioned by '{name}', whose type cannot widen any more")
        for name in sorted({each.path[0] for each in renamed} & set(held)):
            raise LakeRefused(f"{self._place.url} is partitioned by '{name}', which cannot be renamed any more")
        if evolution.widened or renamed:
            refuse_deletion_vectors(table, self._place.url)
        return evolution

    def _renamed(self, table: DeltaTable) -> list[ColumnRename]:
        return moves(plain_schema(pa.schema(table.schema())), self._wanted)

    def _inside(self, schema: pa.Schema) -> pa.Schema:
        """The columns that files hold."""
        return pa.schema([field for field in schema if field.name not in self._partition_columns])

    def _rewrite(self, table: DeltaTable, schema: pa.Schema) -> None:
        """Replace all files by copies in the wider types, under the new names, and the columns, in one commit.

        A copy outlives a try that conflicts with another commit: the next one copies only the files that are new.
        """
        inside = self._inside(schema)
        files = self._place.files()
        current = files_of(table)
        for file in current:
            if (file.path, str(inside)) not in self._rewritten:
                copy = rewrite(
                    files, file, lambda rows: conform(renamed_rows(rows, self._wanted), inside), schema=inside
                )
                self._rewritten[file.path, str(inside)] = copy
        found = [self._rewritten[file.path, str(inside)] for file in current]
        copies = [copy for copy in found if copy is not None]
        self._place.make_files_durable(copy.path for copy in copies)
        table.create_write_transaction(
            list(copies),
            "overwrite",
            Schema.from_arrow(schema),
            list(self._partition_columns),
            commit_properties=CommitProperties(max_commit_retries=0),
            post_commithook_properties=HOOKS,
        )


def refuse_deletion_vectors(table: DeltaTable, url: str) -> None:
    """LakeRefused where another program marked rows as deleted: copies of files would bring them back."""
    features = table.protocol().reader_features or []
    if "deletionVectors" in features and pa.table(table.deletion_vectors().read_all()).num_rows:
        raise LakeRefused(
            f"{url} has deletion vectors of another program, which would be lost where files are rewritten: "
            "let that program purge them first (Spark: REORG TABLE ... APPLY (PURGE))"
        )
