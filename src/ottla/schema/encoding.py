"""Writes the source of an encoder: straight-line code, with one `pack` for each run of fixed-size fields."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, pack
from struct import error as StructError
from typing import Any

from ottla.schema.message import UNSET, Field, default_source, schema_of
from ottla.schema.source import LONGEST_STRING, SHORT, SourceWriter, is_compact, short_runs
from ottla.schema.types import Array, Blob, Fixed, Text, Type
from ottla.schema.varints import MalformedMessage, put_varint


class EncoderWriter(SourceWriter):
    """Writes `encode(m, out)`; `run` holds the fixed-size values whose writing is still to be written."""

    def __init__(self, cls: type, version: int) -> None:
        super().__init__(f"{cls.__name__} v{version}")
        self.cls = cls
        self.version = version
        self.out = "out"
        self.run: list[tuple[str, str]] = []
        self.names |= {
            "Malformed": MalformedMessage,
            "StructError": StructError,
            "pack": pack,
            "put_varint": put_varint,
        }

    def write(self) -> str:
        """The source of the whole function; what fails leaves nothing behind in `out`."""
        self.line("start = len(out)")
        self.open("try:")
        self.struct(self.cls, "m", "message")
        self.flush()
        self.close()
        self.open("except Malformed:")
        self.line("del out[start:]")
        self.line("raise")
        self.close()
        self.open("except (StructError, AttributeError, TypeError, UnicodeEncodeError, OverflowError) as fault:")
        self.line("del out[start:]")
        self.line(f"raise Malformed({self.title + ': '!r} + str(fault)) from fault")
        return "def encode(m, out):\n" + "\n".join(self.lines) + "\n"

    def packed(self, run: list[tuple[str, str]]) -> str:
        """A call that packs the run; the code x is a zero byte."""
        packer = self.named("P", _packer(">" + "".join(code for code, _ in run)))
        return f"{packer}({', '.join(value for code, value in run if code != 'x')})"

    def flush(self) -> None:
        run, self.run = self.run, []
        if not run:
            return
        if all(code == "x" for code, _ in run):
            self.line(f"{self.out} += {bytes(len(run))!r}")
        else:
            self.line(f"{self.out} += {self.packed(run)}")

    def struct(self, cls: type, var: str, path: str) -> None:
        schema = schema_of(cls)
        for each in schema.fields_in(self.version):
            self.value(
                each.kind,
                f"{var}.{each.name}",
                path=each.name if path == "message" else f"{path}.{each.name}",
                nullable=each.is_nullable(self.version),
                compact=is_compact(schema, each, self.version),
            )
        if schema.is_flexible(self.version):
            tagged = schema.tagged_in(self.version)
            if tagged:
                self.tags(tagged, var)
            else:
                self.run.append(("x", ""))

    def value(self, kind: Any, value: str, *, path: str, nullable: bool, compact: bool) -> None:
        if isinstance(kind, Fixed):
            if kind.size == 16:
                self.open(f"if len({value}) != 16:")
                self.refuse(path, "is not 16 bytes")
                self.close()
            self.run.append((kind.code, value))
        elif isinstance(kind, Text | Blob):
            self.sized(kind, value, path=path, nullable=nullable, compact=compact)
        elif isinstance(kind, Array):
            self.array(kind.element, value, path=path, nullable=nullable, compact=compact)
        elif nullable:
            self.nullable_struct(kind, value, path, null=-1)
        else:
            var = self.made("m")
            self.line(f"{var} = {value}")
            self.struct(kind, var, path)

    def nullable_struct(self, cls: type, value: str, path: str, *, null: int) -> None:
        """Write a byte before the struct: 1, or `null` in its place. Kafka says null by -1, in a tagged field by 0."""
        var = self.made("m")
        self.flush()
        self.line(f"{var} = {value}")
        self.open(f"if {var} is None:")
        self.line(f"{self.out}.append({null & 0xFF})")
        self.close()
        self.open("else:")
        self.run.append(("b", "1"))
        self.struct(cls, var, path)
        self.flush()
        self.close()

    def sized(self, kind: Text | Blob[Any], value: str, *, path: str, nullable: bool, compact: bool) -> None:
        """A string or bytes behind its length."""
        body, length = self.made("d"), self.made("n")
        self.line(f"{body} = {value}")
        if nullable:
            self.open(f"if {body} is None:")
            self.line(f"{body} = b''")
            self.line(f"{length} = {0 if compact else -1}")
            self.close()
            self.open("else:")
        if isinstance(kind, Text):
            self.line(f"{body} = {body}.encode()")
        self.line(f"{length} = len({body})" + (" + 1" if compact else ""))
        if isinstance(kind, Text):
            self.open(f"if {length} > {LONGEST_STRING + compact}:")
            self.refuse(path, "is too long")
            self.close()
        if nullable:
            self.close()
        self.length("h" if isinstance(kind, Text) else "i", length, compact=compact)
        self.line(f"{self.out} += {body}")

    def length(self, code: str, length: str, *, compact: bool) -> None:
        """Write the run with a length at its end."""
        if not compact:
            self.run.append((code, length))
            self.flush()
            return
        run, self.run = self.run, []
        self.open(f"if {length} < 128:")
        if run:
            self.line(f"{self.out} += {self.packed([*run, ('B', length)])}")
        else:
            self.line(f"{self.out}.append({length})")
        self.close()
        self.open("else:")
        self.run = run
        self.flush()
        self.line(f"put_varint({self.out}, {length})")
        self.close()

    def array(self, element: Any, value: str, *, path: str, nullable: bool, compact: bool) -> None:
        items, count = self.made("a"), self.made("n")
        self.line(f"{items} = {value}")
        if nullable:
            self.open(f"if {items} is None:")
            self.line(f"{items} = ()")
            self.line(f"{count} = {0 if compact else -1}")
            self.close()
            self.open("else:")
        self.line(f"{count} = len({items})" + (" + 1" if compact else ""))
        if nullable:
            self.close()
        self.length("i", count, compact=compact)
        if isinstance(element, Fixed) and len(element.code) == 1:
            short = self.named("S", short_runs(element.code).packers)
            size = self.made("n")
            self.line(f"{size} = len({items})")
            long = f"pack(f'>{{{size}}}{element.code}', *{items})"
            self.line(f"{self.out} += {short}[{size}](*{items}) if {size} < {SHORT} else {long}")
            return
        var = self.made("m")
        self.open(f"for {var} in {items}:")
        if isinstance(element, type):
            self.struct(element, var, path)
        else:
            self.value(element, var, path=path, nullable=False, compact=compact)
        self.flush()
        self.close()

    def tags(self, tagged: list[Field], var: str) -> None:
        """Write the tagged fields that differ from their defaults; mostly there are none."""
        self.flush()
        count, body = self.made("n"), self.made("body")
        conditions = [self.is_set(each, f"{var}.{each.name}") for each in tagged]
        self.open(f"if {' or '.join(conditions)}:")
        self.line(f"{count} = 0")
        self.line(f"{body} = bytearray()")
        for each, condition in zip(tagged, conditions, strict=True):
            part, outer = self.made("part"), self.out
            self.open(f"if {condition}:")
            self.line(f"{part} = bytearray()")
            self.out = part
            self.tagged_value(each, f"{var}.{each.name}")
            self.flush()
            self.out = outer
            self.line(f"put_varint({body}, {each.tag})")
            self.line(f"put_varint({body}, len({part}))")
            self.line(f"{body} += {part}")
            self.line(f"{count} += 1")
            self.close()
        self.line(f"put_varint({self.out}, {count})")
        self.line(f"{self.out} += {body}")
        self.close()
        self.open("else:")
        self.line(f"{self.out}.append(0)")
        self.close()

    def tagged_value(self, each: Field, value: str) -> None:
        nullable = each.is_nullable(self.version)
        if nullable and not isinstance(each.kind, Type):
            self.nullable_struct(each.kind, value, each.name, null=0)
        else:
            self.value(each.kind, value, path=each.name, nullable=nullable, compact=True)

    def is_set(self, each: Field, value: str) -> str:
        """Source of a test that is true if the value differs from the field's default."""
        default = default_source(each, self.names)
        if default == "None":
            return f"{value} is not None"
        if default == "[]":
            return value if each.nullable_since > self.version else f"({value} is None or {value})"
        if isinstance(each.kind, Type) or each.default is not UNSET:
            return f"{value} != {default}"
        differs = self.is_struct_set(each.kind, value)
        return f"({value} is None or {differs})" if each.is_nullable(self.version) else differs

    def is_struct_set(self, cls: type, value: str) -> str:
        """Compare field by field, which saves the call of `__eq__` on the path of each fetched partition."""
        inside = schema_of(cls).fields
        if all(isinstance(each.kind, Fixed | Text) for each in inside):
            compared = [f"{value}.{each.name} != {default_source(each, self.names)}" for each in inside]
            return f"({' or '.join(compared)})"
        return f"{value} != {self.named('default', cls())}"


def _packer(code: str) -> Callable[..., bytes]:
    return _PACKERS.setdefault(code, Struct(code).pack)


_PACKERS: dict[str, Callable[..., bytes]] = {}
