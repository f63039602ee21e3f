"""Fields that were renamed in the life of a topic: values under old names go into the column of the new name. Pure.

A rename is written `OLD=NEW`, below objects `address.zip=address.postcode`, through arrays and maps as through
objects. The objects on the way have their new names. Renames follow one another: of `a=b` and `b=c`, `a` becomes `c`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ottla.formats.evolution import aliases, described_again
from ottla.formats.faults import Unresolvable

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rename:
    """One field's old and new name in the objects at a path; the empty path is the value itself."""

    place: Path
    old: str
    new: str

    @classmethod
    def parse(cls, text: str) -> Rename:
        """The rename that `OLD=NEW` is; ValueError says what is wrong with it."""
        old, equals, new = text.partition("=")
        one, other = tuple(old.strip().split(".")), tuple(new.strip().split("."))
        if not equals or not all(one) or not all(other):
            raise ValueError("write OLD=NEW, or for a member of an object a.OLD=a.NEW")
        if one[:-1] != other[:-1]:
            raise ValueError(f"a field stays in its object: write {old.strip()}={'.'.join((*one[:-1], other[-1]))}")
        if one == other:
            raise ValueError("both names are the same")
        return cls(one[:-1], one[-1], other[-1])

    def __str__(self) -> str:
        return f"{'.'.join((*self.place, self.old))}={'.'.join((*self.place, self.new))}"


@dataclass(frozen=True, slots=True)
class Renames:
    """All renames of one topic."""

    given: tuple[Rename, ...] = ()
    _last: Mapping[Path, Mapping[str, str]] = field(default_factory=dict, compare=False, repr=False)
    """By place: each old name's last new one."""

    @classmethod
    def of(cls, renames: Iterable[Rename]) -> Renames:
        """Renames together; ValueError where one field gets two names, or gets its own again."""
        given = tuple(dict.fromkeys(renames))
        steps: dict[Path, dict[str, str]] = {}
        for each in given:
            other = steps.setdefault(each.place, {}).setdefault(each.old, each.new)
            if other != each.new:
                raise ValueError(f"{each}: {'.'.join((*each.place, each.old))} is renamed to {other} already")
        return cls(given, {place: {old: _end(old, names) for old in names} for place, names in steps.items()})

    def __bool__(self) -> bool:
        return bool(self.given)

    def at(self, place: Path) -> Mapping[str, str]:
        """The new names of fields of the objects at a place."""
        return self._last.get(place, {})

    def texts(self) -> tuple[str, ...]:
        """The renames as they are written."""
        return tuple(map(str, self.given))

    def columns(self, schema: pa.Schema) -> pa.Schema:
        """The schema under new names, with the old ones noted in it; `Unresolvable` where it has both of a field."""
        if not self:
            return schema
        return pa.schema(list(self._type(pa.struct(list(schema)), ())), metadata=schema.metadata)

    def _type(self, kind: pa.DataType, place: Path) -> pa.DataType:
        if pa.types.is_map(kind):
            return pa.map_(kind.key_type, self._type(kind.item_type, place))
        if pa.types.is_list(kind):
            return pa.list_(self._type(kind.value_type, place))
        if not pa.types.is_struct(kind):
            return kind
        names = self.at(place)
        found: dict[str, pa.Field] = {}
        for each in kind:
            new = names.get(each.name, each.name)
            if new in found:
                both = " and ".join(sorted(other.name for other in kind if names.get(other.name, other.name) == new))
                raise Unresolvable(f"{'.'.join((*place, new))}: there are {both}, which a rename makes one")
            known = [each.name, *aliases(each), *(old for old in names if names[old] == new)]
            renamed = each.with_name(new).with_type(self._type(each.type, (*place, new)))
            found[new] = described_again(renamed, [name for name in known if name != new])
        return pa.struct(list(found.values()))

    def document(self, value: Any, place: Path = ()) -> Any:
        """A JSON document under new names; ValueError where it has both of a field."""
        if isinstance(value, list):
            return [self.document(item, place) for item in value]
        if not isinstance(value, dict):
            return value
        names = self.at(place)
        found: dict[str, Any] = {}
        for name, member in value.items():
            new = names.get(name, name)
            if found.get(new) is not None and member is not None:
                raise ValueError(f"field {'.'.join((*place, new))}: it is there under two of its names")
            if member is not None or new not in found:
                found[new] = self.document(member, (*place, new))
        return found


def _end(name: str, names: Mapping[str, str]) -> str:
    """The last of a name's new names."""
    seen = {name}
    while name in names:
        name = names[name]
        if name in seen:
            raise ValueError(f"the renames of {name} lead back to it")
        seen.add(name)
    return name
