"""Writes the source of a decoder: straight-line code, with one `unpack_from` for each run of fixed-size fields."""

from __future__ import annotations

from struct import Struct, unpack_from
from struct import error as StructError
from typing import Any

from ottla.schema.message import UNSET, Field, default_source, schema_of
from ottla.schema.source import LONGEST_STRING, SHORT, SourceWriter, is_compact, least_size, short_runs
from ottla.schema.types import Array, Blob, Fixed, Text, Type
from ottla.schema.varints import MOST_ELEMENTS, MOST_TAGS, MalformedMessage, read_varint, skip_tags


class DecoderWriter(SourceWriter):
    """Writes `decode(view, p)`; `run` holds the fixed-size values whose reading is still to be written."""

    def __init__(self, cls: type, version: int) -> None:
        super().__init__(f"{cls.__name__} v{version}")
        self.cls = cls
        self.version = version
        self.asked = cls.__name__.endswith("Request")
        """Only what strangers send is bounded; the answer of a big cluster is not."""
        self.run: list[tuple[str, str]] = []
        self.names |= {
            "Malformed": MalformedMessage,
            "StructError": StructError,
            "new": object.__new__,
            "read_varint": read_varint,
            "skip_tags": skip_tags,
            "unpack_from": unpack_from,
        }

    def write(self) -> str:
        """The source of the whole function."""
        self.line("limit = len(view)")
        if self.asked:
            self.line(f"left = {MOST_ELEMENTS}")
        self.open("try:")
        self.line(f"m = new({self.named('C', self.cls)})")
        self.struct(self.cls, "m", "message")
        self.flush()
        self.line("return m, p")
        self.close()
        self.open("except (StructError, IndexError):")
        self.line(f"raise Malformed({self.title + ': ends too early'!r}) from None")
        self.close()
        self.open("except UnicodeDecodeError as fault:")
        self.line(f"raise Malformed({self.title + ': '!r} + str(fault)) from None")
        return "def decode(view, p):\n" + "\n".join(self.lines) + "\n"

    def flush(self) -> None:
        """Write the reading of the run."""
        run, self.run = self.run, []
        if not run:
            return
        if len(run) == 1 and run[0][0] == "B":
            self.line(f"{run[0][1]} = view[p]")
            self.line("p += 1")
            return
        packed = Struct(">" + "".join(code for code, _ in run))
        unpack = self.named("U", packed.unpack_from)
        comma = "," if len(run) == 1 else ""
        self.line(f"{', '.join(target for _, target in run)}{comma} = {unpack}(view, p)")
        self.line(f"p += {packed.size}")

    def struct(self, cls: type, var: str, path: str) -> None:
        """Fill the fields of `var`, which is a new object of the class."""
        schema = schema_of(cls)
        present = schema.fields_in(self.version)
        for each in schema.fields:
            if each not in present:
                self.default(each, f"{var}.{each.name}")
        for each in present:
            self.value(
                each.kind,
                f"{var}.{each.name}",
                path=each.name if path == "message" else f"{path}.{each.name}",
                nullable=each.is_nullable(self.version),
                compact=is_compact(schema, each, self.version),
            )
        if schema.is_flexible(self.version):
            self.tags(schema.tagged_in(self.version), var, path)

    def default(self, each: Field, target: str) -> None:
        """Fill what is not on the wire; a struct field by field, which saves the call of its `__init__`."""
        if each.struct is None or each.default is not UNSET or isinstance(each.kind, Array):
            self.line(f"{target} = {default_source(each, self.names)}")
            return
        var = self.made("m")
        self.line(f"{var} = {target} = new({self.named('C', each.kind)})")
        for inner in schema_of(each.kind).fields:
            self.default(inner, f"{var}.{inner.name}")

    def value(self, kind: Any, target: str, *, path: str, nullable: bool, compact: bool) -> None:
        if isinstance(kind, Fixed):
            self.run.append((kind.code, target))
        elif isinstance(kind, Text):
            self.text(target, path=path, nullable=nullable, compact=compact)
        elif isinstance(kind, Blob):
            self.blob(kind, target, path=path, nullable=nullable, compact=compact)
        elif isinstance(kind, Array):
            self.array(kind.element, target, path=path, nullable=nullable, compact=compact)
        elif nullable:
            mark = self.made("n")
            self.run.append(("b", mark))
            self.flush()
            self.unless_null(mark, target, path=path, nullable=True, compact=False)
            self.new_struct(kind, target, path)
            self.flush()
            self.close()
        else:
            self.new_struct(kind, target, path)

    def tagged_value(self, each: Field, target: str) -> None:
        """A value in a tagged field: Kafka writes 0 there for a struct that is null, and -1 everywhere else."""
        nullable = each.is_nullable(self.version)
        if isinstance(each.kind, Type) or not nullable:
            self.value(each.kind, target, path=each.name, nullable=nullable, compact=True)
            return
        mark = self.made("n")
        self.run.append(("B", mark))
        self.flush()
        self.open(f"if not {mark}:")
        self.line(f"{target} = None")
        self.close()
        self.open("else:")
        self.new_struct(each.kind, target, each.name)
        self.flush()
        self.close()

    def new_struct(self, cls: type, target: str, path: str) -> None:
        var = self.made("m")
        self.line(f"{var} = {target} = new({self.named('C', cls)})")
        self.struct(cls, var, path)

    def length(self, code: str, *, compact: bool, longest: int | None, path: str) -> str:
        """Read a length; its name, which holds -1 for null."""
        name = self.made("n")
        self.run.append(("B" if compact else code, name))
        self.flush()
        if compact:
            self.open(f"if {name} > 127:")
            self.line(f"{name}, p = read_varint(view, p - 1)")
            if longest is not None:
                self.open(f"if {name} > {longest + 1}:")
                self.refuse(path, "is too long")
                self.close()
            self.close()
            self.line(f"{name} -= 1")
        return name

    def unless_null(self, length: str, target: str, *, path: str, nullable: bool, compact: bool) -> None:
        """Deal with a length below 0, and open the block for all others."""
        self.open(f"if {length} < 0:")
        if nullable:
            if not compact:
                self.open(f"if {length} != -1:")
                self.refuse(path, "has a negative length")
                self.close()
            self.line(f"{target} = None")
        else:
            self.refuse(path, "is null or has a negative length")
        self.close()
        self.open("else:")

    def end_of(self, length: str, path: str) -> str:
        end = self.made("e")
        self.line(f"{end} = p + {length}")
        self.open(f"if {end} > limit:")
        self.refuse(path, "runs past the end")
        self.close()
        return end

    def text(self, target: str, *, path: str, nullable: bool, compact: bool) -> None:
        length = self.length("h", compact=compact, longest=LONGEST_STRING, path=path)
        self.unless_null(length, target, path=path, nullable=nullable, compact=compact)
        end = self.end_of(length, path)
        self.line(f"{target} = str(view[p:{end}], 'utf-8')")
        self.line(f"p = {end}")
        self.close()

    def blob(self, kind: Blob[Any], target: str, *, path: str, nullable: bool, compact: bool) -> None:
        length = self.length("i", compact=compact, longest=None, path=path)
        self.unless_null(length, target, path=path, nullable=nullable, compact=compact)
        end = self.end_of(length, path)
        self.line(f"{target} = view[p:{end}]" + ("" if kind.as_view else ".tobytes()"))
        self.line(f"p = {end}")
        self.close()

    def array(self, element: Any, target: str, *, path: str, nullable: bool, compact: bool) -> None:
        count = self.length("i", compact=compact, longest=None, path=path)
        self.unless_null(count, target, path=path, nullable=nullable, compact=compact)
        least = max(1, least_size(element, self.version, compact=compact, nullable=False))
        self.open(f"if {count} * {least} > limit - p:" if least > 1 else f"if {count} > limit - p:")
        self.refuse(path, "claims more elements than the rest can hold")
        self.close()
        if self.asked:
            self.line(f"left -= {count}")
            self.open("if left < 0:")
            self.refuse(path, f"brings the request above {MOST_ELEMENTS} elements")
            self.close()
        if isinstance(element, Fixed) and len(element.code) == 1:
            short = self.named("S", short_runs(element.code).unpackers)
            long = f"unpack_from(f'>{{{count}}}{element.code}', view, p)"
            self.line(f"{target} = list({short}[{count}](view, p) if {count} < {SHORT} else {long})")
            self.line(f"p += {count} * {element.size}" if element.size > 1 else f"p += {count}")
        else:
            self.elements(element, count, target, path=path, compact=compact)
        self.close()

    def elements(self, element: Any, count: str, target: str, *, path: str, compact: bool) -> None:
        items, var = self.made("a"), self.made("m")
        self.line(f"{target} = {items} = []")
        self.open(f"for _ in range({count}):")
        if isinstance(element, type):
            self.line(f"{var} = new({self.named('C', element)})")
            self.struct(element, var, path)
        else:
            self.value(element, var, path=path, nullable=False, compact=compact)
        self.flush()
        self.line(f"{items}.append({var})")
        self.close()

    def tags(self, known: list[Field], var: str, path: str) -> None:
        count = self.made("n")
        self.run.append(("B", count))
        self.flush()
        self.open(f"if {count}:")
        if known:
            self.known_tags(known, var, path, count)
        else:
            self.line("p = skip_tags(view, p - 1)")
        self.close()

    def known_tags(self, known: list[Field], var: str, path: str, count: str) -> None:
        tag, last, size, stop = self.made("tag"), self.made("tag"), self.made("n"), self.made("e")
        self.open(f"if {count} > 127:")
        self.line(f"{count}, p = read_varint(view, p - 1)")
        self.open(f"if {count} > {MOST_TAGS}:")
        self.refuse(path, "has too many tagged fields")
        self.close()
        self.close()
        self.line(f"{last} = -1")
        self.open(f"for _ in range({count}):")
        self.line(f"{tag}, p = read_varint(view, p)")
        self.open(f"if {tag} <= {last}:")
        self.refuse(path, "has tagged fields out of order")
        self.close()
        self.line(f"{last} = {tag}")
        self.line(f"{size}, p = read_varint(view, p)")
        self.line(f"{stop} = p + {size}")
        self.open(f"if {stop} > limit:")
        self.refuse(path, "has a tagged field that runs past the end")
        self.close()
        branch = "if"
        for each in known:
            self.open(f"{branch} {tag} == {each.tag}:")
            self.tagged_value(each, f"{var}.{each.name}")
            self.flush()
            self.open(f"if p != {stop}:")
            self.refuse(each.name, "does not fill its tagged field")
            self.close()
            self.close()
            branch = "elif"
        self.open("else:")
        self.line(f"p = {stop}")
        self.close()
        self.close()
