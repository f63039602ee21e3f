"""Names of a table's columns: those that the formats' writers refuse are replaced, the same way every time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ottla.stores.base import LakeRefused

_REFUSED = re.compile(r"[ ,;{}()\n\t=]")
"""Delta's protocol refuses these in a column of a table without column mapping; `deltalake` does not check."""


def table_column_names(names: Sequence[str]) -> list[str]:
    """The names of columns in a table: each refused character becomes `_`, a name that is taken gets a number.

    Names stand in the order in which their fields came: a later one never takes the name of an earlier one.
    """
    taken: set[str] = set()
    renamed: dict[str, str] = {}
    for name in names:
        if name in renamed:
            continue
        stem = own = _REFUSED.sub("_", name) or "_"
        number = 2
        while own.lower() in taken:
            own, number = f"{stem}_{number}", number + 1
        taken.add(own.lower())
        renamed[name] = own
    return [renamed[name] for name in names]


def is_allowed(name: str) -> bool:
    """True if a table may have a column of this name."""
    return bool(name) and not _REFUSED.search(name)


def check_column_names(names: Sequence[str]) -> None:
    """LakeRefused where a table may not have one of these columns."""
    for name in names:
        if not is_allowed(name):
            raise LakeRefused(f"a table cannot have a column named {name!r}; its name in a table is given by renaming")
    lower: dict[str, str] = {}
    for name in names:
        other = lower.setdefault(name.lower(), name)
        if other != name:
            raise LakeRefused(f"a table cannot have the columns '{other}' and '{name}': they differ in case alone")
