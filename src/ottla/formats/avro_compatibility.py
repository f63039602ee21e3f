"""Checks that an Avro reader's schema resolves all that a writer's schema may have written.

The rules are those of the Avro specification 1.12, "Schema Resolution".
"""

from __future__ import annotations

from ottla.formats.avro_tree import AvroField, AvroNode, AvroSchema
from ottla.formats.compatibility import Incompatibility

_PROMOTIONS = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""Writer's type to the readers' types that take its values."""


def avro_incompatibilities(reader: AvroSchema, writer: AvroSchema) -> list[Incompatibility]:
    """The reasons why `reader` cannot read what `writer` wrote; none where it can."""
    return _Comparison().compare(reader.root, writer.root, "")


class _Comparison:
    """A pair that is being compared already counts as compatible, so recursive types come to an end."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[Incompatibility]] = {}

    def compare(self, reader: AvroNode, writer: AvroNode, path: str) -> list[Incompatibility]:
        """The reasons against a pair; where it comes again, the first of them stands for all.

        Names that are used several times would else double the list at every level of nesting.
        """
        pair = (id(reader), id(writer))
        if pair in self._known:
            return self._known[pair][:1]
        before = len(self._known)
        self._known[pair] = []
        found = self._compare(reader, writer, path)
        if found:
            self._forget_after(before)
        self._known[pair] = found
        return found

    def _forget_after(self, count: int) -> None:
        """Drop pairs that passed while a pair that failed was taken for compatible."""
        for pair in list(self._known)[count:]:
            if not self._known[pair]:
                del self._known[pair]

    def _compare(self, reader: AvroNode, writer: AvroNode, path: str) -> list[Incompatibility]:
        if writer.kind == "union":
            return [found for branch in writer.branches for found in self.compare(reader, branch, path)]
        if reader.kind == "union":
            return self._into_union(reader, writer, path)
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTIONS.get(writer.kind, ()):
                return []
            detail = f"the reader expects {_shown(reader)}, the writer wrote {_shown(writer)}"
            return [Incompatibility("TYPE_MISMATCH", path, detail)]
        if reader.kind in ("array", "map"):
            assert reader.items is not None and writer.items is not None
            inner = "items" if reader.kind == "array" else "values"
            return self.compare(reader.items, writer.items, f"{path}/{inner}")
        if not reader.name:
            return _decimal(reader, writer, path)
        if reader.short_name != writer.short_name and writer.name not in reader.aliases:
            detail = f"the reader's name is {reader.name}, the writer's {writer.name}, and no alias joins them"
            return [Incompatibility("NAME_MISMATCH", f"{path}/name", detail)]
        if reader.kind == "fixed":
            return _fixed(reader, writer, path) or _decimal(reader, writer, path)
        return _enum(reader, writer, path) if reader.kind == "enum" else self._record(reader, writer, path)

    def _into_union(self, reader: AvroNode, writer: AvroNode, path: str) -> list[Incompatibility]:
        """If a branch has the writer's own type, that branch alone counts: readers choose no other."""
        chosen = [branch for branch in reader.branches if _same_type(branch, writer)]
        if chosen:
            return self.compare(chosen[0], writer, f"{path}/{reader.branches.index(chosen[0])}")
        for index, branch in enumerate(reader.branches):
            if not self.compare(branch, writer, f"{path}/{index}"):
                return []
        detail = f"the reader's union has no branch for {_shown(writer)}"
        return [Incompatibility("MISSING_UNION_BRANCH", path, detail)]

    def _record(self, reader: AvroNode, writer: AvroNode, path: str) -> list[Incompatibility]:
        written = {each.name: each for each in writer.fields}
        found: list[Incompatibility] = []
        for index, each in enumerate(reader.fields):
            where = f"{path}/fields/{index}"
            source = _source(each, written)
            if source is not None:
                found += self.compare(each.type, source.type, f"{where}/type")
            elif not each.has_default:
                detail = f"the field {each.name} of {reader.name} has no default, and the writer does not have it"
                found.append(Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", where, detail))
        return found


def _source(field: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    """The writer's field for a reader's, by its name or one of its aliases."""
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def _same_type(branch: AvroNode, writer: AvroNode) -> bool:
    return branch.kind == writer.kind and (branch.name == writer.name or writer.name in branch.aliases)


def _fixed(reader: AvroNode, writer: AvroNode, path: str) -> list[Incompatibility]:
    if reader.size == writer.size:
        return []
    detail = f"{reader.name} has {reader.size} bytes, the writer's {writer.size}"
    return [Incompatibility("FIXED_SIZE_MISMATCH", f"{path}/size", detail)]


def _decimal(reader: AvroNode, writer: AvroNode, path: str) -> list[Incompatibility]:
    """Find decimals whose values would be read as others.

    The specification wants equal precisions, too; but more digits than the writer's do no harm.
    """
    mine, theirs = _digits(reader), _digits(writer)
    if mine is None or theirs is None or (mine[1] == theirs[1] and mine[0] >= theirs[0]):
        return []
    detail = (
        f"the reader's decimal has precision {mine[0]} and scale {mine[1]}, the writer's {theirs[0]} and {theirs[1]}"
    )
    return [Incompatibility("DECIMAL_CHANGED", path, detail)]


def _digits(node: AvroNode) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for another type and for a decimal that is none, which readers ignore."""
    precision, scale = node.properties.get("precision"), node.properties.get("scale", 0)
    if node.kind not in ("bytes", "fixed") or node.properties.get("logicalType") != "decimal":
        return None
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        return None
    return precision, scale


def _enum(reader: AvroNode, writer: AvroNode, path: str) -> list[Incompatibility]:
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if not missing or reader.default is not None:
        return []
    detail = f"{reader.name} has no default and lacks {', '.join(missing)}"
    return [Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", detail)]


def _shown(node: AvroNode) -> str:
    return f"{node.kind} {node.name}" if node.name else node.kind
