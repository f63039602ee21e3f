"""Fields whose columns would have one name: found before they are columns. Pure.

A lake's column may have another name than its field: a reserved name gets `value_` before it, and tables refuse some
characters. The field that came first keeps its column, for good; a later one gets another name, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ottla.formats.columns import places
from ottla.lake.columns.json_columns import column_names
from ottla.lake.columns.names import table_column_names
from ottla.lake.columns.types import Misfit
from ottla.stores.base import LakeRefused


def met(names: Iterable[str], *, table: bool) -> tuple[str, str] | None:
    """The first two of these fields whose columns would have one name, in a table or in plain files."""
    taken: dict[str, str] = {}
    for name in names:
        own = column_names([name])
        column = (table_column_names(own) if table else own)[0].casefold()
        if (other := taken.setdefault(column, name)) != name:
            return other, name
    return None


def check_apart(names: Iterable[str], *, table: bool) -> None:
    """Misfit where two fields would have one column."""
    if found := met(names, table=table):
        raise Misfit(f"field {found[1]}: its column would have the name of that of {found[0]}")


def check_held(topic: str, before: pa.Schema, named: Iterable[str], held: Iterable[str], *, table: bool) -> None:
    """LakeRefused where an earlier version gave fields that meet other columns than this one does.

    `named` are the columns of the fields before the round by today's rule, `held` those that the lake has.
    """
    if met(before.names, table=table) is None:
        return
    wanted, known = list(named), list(held)
    if [name for name in known if name in wanted] != [name for name in wanted if name in known]:
        raise LakeRefused(
            f"topic {topic}: an earlier version of ottla chose other columns for fields whose names meet: "
            f"{', '.join(wanted)} by this one. Load the topic into another directory"
        )


def check_paths(columns: pa.Schema) -> None:
    """Misfit where a field has the name of another one's path: Iceberg's library tells fields by their paths."""
    taken: set[str] = set()
    for path in map(".".join, (steps for steps, _ in places(columns))):
        if path in taken:
            raise Misfit(
                f"field {path}: an Iceberg table cannot have both a field of this name and a member of this path"
            )
        taken.add(path)
