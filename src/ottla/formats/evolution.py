"""A column of one schema becomes a column of another: fields by name and alias, defaults, wider numbers.

The target's fields say by their metadata under which other names they were written, and their defaults. A field that
the writer does not know is its default, else null; nothing that is only missing makes a row bad.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.arrays import refilled
from ottla.formats.columns import alike, parts
from ottla.formats.faults import Unresolvable
from ottla.formats.iso_times import FINER

ALIASES, DEFAULT, NUMBER, MEANING = b"ottla.aliases", b"ottla.default", b"ottla.number", b"ottla.connect"
NOTES = (ALIASES, DEFAULT, NUMBER)
UNION_MEMBER = "member_"

Path = tuple[str, ...]
Stays = Callable[[Path], bool]
"""True if the field at a path keeps its name; items of arrays and maps have `[]` after the name."""

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS = (pa.float32(), pa.float64())
_DAY_MICROS = 86_400_000_000


def described(
    field: pa.Field,
    *,
    aliases: tuple[str, ...] = (),
    default: pa.Array | None = None,
    number: int | None = None,
    meaning: str = "",
) -> pa.Field:
    """The field with what its schema says of it: aliases, the default (an array of one value), the number (Protobuf's)
    and Kafka Connect's name of its type.
    """
    notes: dict[bytes, bytes] = {MEANING: meaning.encode()} if meaning else {}
    if number is not None:
        notes[NUMBER] = str(number).encode()
    if aliases:
        notes[ALIASES] = json.dumps(list(aliases)).encode()
    if default is not None:
        batch = pa.RecordBatch.from_arrays([default], ["default"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        notes[DEFAULT] = base64.b64encode(sink.getvalue())
    return field.with_metadata(notes) if notes else field


def described_again(field: pa.Field, names: Iterable[str]) -> pa.Field:
    """The field with these names as its aliases, in place of those it had; its other notes stay."""
    notes = {key: note for key, note in (field.metadata or {}).items() if key != ALIASES}
    if known := list(dict.fromkeys(names)):
        notes[ALIASES] = json.dumps(known).encode()
    return field.with_metadata(notes or None)


def meanings(field: pa.Field) -> tuple[str, ...]:
    """Kafka Connect's name of the field's type; a second one, if a later schema gives another."""
    noted = (field.metadata or {}).get(MEANING, b"").decode()
    return tuple(noted.split(",")) if noted else ()


def check(source: pa.DataType, target: pa.DataType, path: str = "value") -> None:
    """Raise `Unresolvable` unless every value of the source type may become one of the target."""
    if source == target or pa.types.is_null(source) or _promotes(source, target):
        return
    if _is_union(target) and _union_member(source, target) is not None:
        return
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        for field in target:
            found = _source_of(field, source)
            if found is not None:
                check(found.type, field.type, f"{path}.{field.name}")
        return
    if pa.types.is_map(source) and pa.types.is_map(target):
        check(source.item_type, target.item_type, f"{path}[]")
        return
    if pa.types.is_list(source) and pa.types.is_list(target):
        check(source.value_type, target.value_type, f"{path}[]")
        return
    raise Unresolvable(f"{path}: {source} is written, {target} is wanted")


def converted(
    array: pa.Array, target: pa.DataType, source: pa.DataType | None = None, *, exact: bool = False
) -> pa.Array:
    """The array as one of the target type, which `check` must have allowed.

    `source` is the array's type with the aliases that its writer noted. Raises pa.ArrowInvalid where a value does not
    fit: bytes that are not UTF-8 as text; with `exact` also nanoseconds that a column of microseconds would drop.
    """
    source = array.type if source is None else source
    if source == target:
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(source) and pa.types.is_struct(target) and not _joins_union(source, target):
        return _struct(array, target, source, exact=exact)
    if _is_union(target):
        return _wrapped(array, target, exact=exact)
    if pa.types.is_map(target):
        parts = {".key": source.key_type, "[]": source.item_type}
        return refilled(array, target, lambda held, to, step: converted(held, to.type, parts[step], exact=exact))
    if pa.types.is_list(target):
        return refilled(array, target, lambda held, to, _: converted(held, to.type, source.value_type, exact=exact))
    return _cast(array, target, exact=exact)


def _cast(array: pa.Array, target: pa.DataType, *, exact: bool) -> pa.Array:
    """Values without parts as those of another type; pa.ArrowInvalid where one does not fit."""
    if pa.types.is_time(target) and pa.types.is_integer(array.type):
        bounds = pc.min_max(array).as_py()
        if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < _DAY_MICROS:
            raise pa.ArrowInvalid("a time of day is before midnight or after it")
    if not pa.types.is_timestamp(array.type) or array.type.unit != "ns":
        return array.cast(target)
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        if exact:
            raise pa.ArrowInvalid(f"a time in nanoseconds, and {FINER}") from None
    return array.cast(target, safe=False)  # as every time that Spark has is


def widened(target: pa.Schema, found: pa.Schema, stays: Stays = lambda path: False) -> pa.Schema:
    """The target with the fields that only `found` has, and with the wider type where both have one.

    A field that `found` has under a new name, with the target's for an alias, gets the new name unless it `stays`.
    Raises `Unresolvable` where no type holds the values of both.
    """
    merged = _wider_struct(pa.struct(list(target)), pa.struct(list(found)), ("value",), stays)
    return pa.schema(list(merged), metadata=target.metadata)


def lacking(source: pa.DataType, target: pa.DataType, path: str = "value") -> list[str]:
    """The fields of the source that the target has no place for."""
    if pa.types.is_struct(source) and pa.types.is_struct(target) and not _joins_union(source, target):
        used: dict[str, pa.Field] = {}
        for field in target:
            found = _source_of(field, source)
            if found is not None:
                used[found.name] = field
        missing = [f"{path}.{field.name}" for field in source if field.name not in used]
        for name, field in used.items():
            inner = source.field(source.get_field_index(name)).type
            missing += lacking(inner, field.type, f"{path}.{name}")
        return missing
    if pa.types.is_map(source) and pa.types.is_map(target):
        return lacking(source.item_type, target.item_type, f"{path}[]")
    if pa.types.is_list(source) and pa.types.is_list(target):
        return lacking(source.value_type, target.value_type, f"{path}[]")
    return []


def has_place(target: pa.Schema, source: pa.Schema, path: Path) -> bool:
    """True if a writer's columns have a field for the target's column, or the member inside it, at a path."""
    wanted, found = pa.struct(list(target)), pa.struct(list(source))
    for step in path:
        if pa.types.is_struct(wanted) and pa.types.is_struct(found):
            if _joins_union(found, wanted):
                return True
            field = wanted.field(wanted.get_field_index(step))
            if (other := _source_of(field, found)) is None:
                return False
            wanted, found = field.type, other.type
        elif (inside := parts(wanted, step)) and alike(wanted, found):
            wanted, found = inside[-1][1].type, parts(found, step)[-1][1].type
        else:
            return True
    return True


def _promotes(source: pa.DataType, target: pa.DataType) -> bool:
    if wider_number(source, target):
        return True
    if pa.types.is_unsigned_integer(source) and pa.types.is_unsigned_integer(target):
        return bool(source.bit_width <= target.bit_width)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return bool((source.tz is None) == (target.tz is None))
    if {source, target} == {pa.int64(), pa.time64("us")}:
        return True
    texts = (pa.string(), pa.binary())
    return source in texts and target in texts


def wider_number(source: pa.DataType, target: pa.DataType) -> bool:
    """True if a number of the source type becomes one of the target: an integer a longer one, a float or a decimal with
    19 digits before the point, a float a double, a decimal one with as many digits on both sides of the point.
    """
    if pa.types.is_decimal(target):
        digits = target.precision - target.scale
        if pa.types.is_decimal(source):
            return bool(digits >= source.precision - source.scale and target.scale >= source.scale)
        return source in INTEGERS and digits >= 19
    if source in INTEGERS:
        return target in _FLOATS or (target in INTEGERS and bool(source.bit_width <= target.bit_width))
    return source in _FLOATS and bool(target == pa.float64())


def _is_union(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and kind.num_fields > 0 and all(f.name.startswith(UNION_MEMBER) for f in kind)


def _joins_union(source: pa.DataType, target: pa.DataType) -> bool:
    """A record that became one branch of a union; a union that gained branches is matched by their names."""
    return _is_union(target) and not _is_union(source)


def _union_member(source: pa.DataType, target: pa.DataType) -> int | None:
    """The branch that takes values of a writer who had no union."""
    if _is_union(source):
        return None
    for at, field in enumerate(target):
        if field.type == source:
            return at
    for at, field in enumerate(target):
        if _promotes(source, field.type):
            return at
    return None


def _wrapped(array: pa.Array, target: pa.DataType, *, exact: bool) -> pa.Array:
    member = _union_member(array.type, target)
    parts = [
        converted(array, field.type, exact=exact) if at == member else pa.nulls(len(array), field.type)
        for at, field in enumerate(target)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())


def _source_of(field: pa.Field, source: pa.DataType) -> pa.Field | None:
    """The writer's field for one of the target's: of its name, of its alias, or one that has its name for an alias.

    Protobuf has no aliases: there a field of another name but the same number was renamed.
    """
    for name in (field.name, *aliases(field)):
        at = source.get_field_index(name)
        if at >= 0:
            return source.field(at)
    number = (field.metadata or {}).get(NUMBER)
    for written in source:
        same_number = number is not None and (written.metadata or {}).get(NUMBER) == number
        if field.name in aliases(written) or same_number:
            return written
    return None


def aliases(field: pa.Field) -> tuple[str, ...]:
    """The other names of a field."""
    noted = (field.metadata or {}).get(ALIASES)
    return () if noted is None else tuple(json.loads(noted))


def _default(field: pa.Field, rows: int) -> pa.Array:
    noted = (field.metadata or {}).get(DEFAULT)
    if noted is None:
        return pa.nulls(rows, field.type)
    one = pa.ipc.open_stream(pa.py_buffer(base64.b64decode(noted))).read_all().column(0).combine_chunks()
    return converted(one, field.type).take(pa.array(np.zeros(rows, dtype=np.int64)))


def _struct(array: pa.Array, target: pa.DataType, source: pa.DataType, *, exact: bool) -> pa.Array:
    parts = []
    for field in target:
        found = _source_of(field, source)
        if found is None:
            parts.append(_default(field, len(array)))
        else:
            parts.append(_member(array.field(found.name), field, found.type, exact=exact))
    if not parts:
        return array
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())


def _member(array: pa.Array, field: pa.Field, source: pa.DataType, *, exact: bool) -> pa.Array:
    try:
        return converted(array, field.type, source, exact=exact)
    except pa.ArrowInvalid as fault:
        raise pa.ArrowInvalid(f"{field.name}: {fault}") from None


def _wider(one: pa.DataType, other: pa.DataType, path: Path, stays: Stays) -> pa.DataType:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other) and not _joins_union(other, one):
        return _wider_struct(one, other, path, stays)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return pa.map_(one.key_type, _wider(one.item_type, other.item_type, _items(path), stays))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_wider(one.value_type, other.value_type, _items(path), stays))
    if _is_union(one) and _union_member(other, one) is not None:
        return one
    if pa.float32() in (one, other) and (one in INTEGERS or other in INTEGERS):
        return pa.float64()  # a float lacks most whole numbers beyond 2**24
    if _promotes(other, one):
        return one
    if _promotes(one, other):
        return other
    raise Unresolvable(f"{'.'.join(path)}: no type holds both {one} and {other}")


def _wider_struct(one: pa.DataType, other: pa.DataType, path: Path, stays: Stays) -> pa.DataType:
    fields = list(one)
    taken = set()
    for at, field in enumerate(fields):
        found = _source_of(field, other)
        if found is not None:
            taken.add(found.name)
            renamed = field
            if _renames(field, found, one) and not stays((*path[1:], field.name)):
                renamed = field.with_name(found.name)
            if (held := meanings(field)) and (other_one := meanings(found)) and other_one[0] not in held:
                both = ",".join((held[0], other_one[0])).encode()
                renamed = renamed.with_metadata({**(field.metadata or {}), MEANING: both})
            wider = renamed.with_type(_wider(field.type, found.type, (*path, field.name), stays))
            known = [field.name, *aliases(field), *aliases(found)]
            fields[at] = described_again(wider, [name for name in known if name != wider.name])
    return pa.struct(fields + [field for field in other if field.name not in taken])


def _renames(field: pa.Field, found: pa.Field, one: pa.DataType) -> bool:
    """True if the writer's field is the target's under a new name, which the target never had."""
    had = {name.casefold() for each in one if each.name != field.name for name in (each.name, *aliases(each))}
    return field.name in aliases(found) and found.name not in aliases(field) and found.name.casefold() not in had


def _items(path: Path) -> Path:
    return (*path[:-1], f"{path[-1]}[]")
