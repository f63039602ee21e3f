"""Declarations of messages: `@message` for a whole one, `@struct` for a part, `field(...)` for each field.

One class stands for all versions. A field that a version does not have is left out when that version is encoded, and
holds its default when that version was decoded. Creating a class compiles nothing; that waits for the first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast, dataclass_transform, overload

from ottla.schema.types import Array, Type

T = TypeVar("T")
C = TypeVar("C", bound=type)

LAST = 1 << 15
"""The last version of a field or message that is in all later versions too."""


class _Unset:
    """Stands for an argument that was not given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


UNSET: Any = _Unset()


class Field:
    """One declared field: its name, its type, and in which versions it is there, nullable or tagged."""

    __slots__ = ("default", "flexible", "kind", "name", "nullable_since", "since", "tag", "until")

    def __init__(
        self,
        kind: Any,
        *,
        since: int,
        until: int,
        tag: int | None,
        nullable_since: int,
        default: Any,
        flexible: bool,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.since = since
        self.until = until
        self.tag = tag
        self.nullable_since = nullable_since
        self.default = default
        self.flexible = flexible

    @property
    def struct(self) -> type | None:
        """The class of the field, or of its elements, where that is a struct."""
        kind = self.kind.element if isinstance(self.kind, Array) else self.kind
        return None if isinstance(kind, Type) else kind

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable(self, version: int) -> bool:
        return version >= self.nullable_since


@overload
def field(
    kind: Type[T] | type[T],
    *,
    since: int = 0,
    until: int = LAST,
    tag: int | None = None,
    default: T = ...,
    flexible: bool = True,
) -> T: ...
@overload
def field(
    kind: Type[T] | type[T],
    *,
    nullable_since: int,
    since: int = 0,
    until: int = LAST,
    tag: int | None = None,
    default: T | None = ...,
    flexible: bool = True,
) -> T | None: ...
def field(
    kind: Any,
    *,
    nullable_since: int = LAST + 1,
    since: int = 0,
    until: int = LAST,
    tag: int | None = None,
    default: Any = UNSET,
    flexible: bool = True,
) -> Any:
    """Declare a field of type `kind`, there in versions `since` to `until`, null allowed from `nullable_since` on.

    With a `tag` it travels as a tagged field, only where it differs from its default. `flexible=False` keeps the
    old form of the length in flexible versions too.
    """
    return Field(
        kind,
        since=since,
        until=until,
        tag=tag,
        nullable_since=nullable_since,
        default=default,
        flexible=flexible,
    )


class MessageSchema:
    """The declaration of a message class; `versions` and `flexible_since` of a struct are those of its message."""

    __slots__ = ("fields", "flexible_since", "name", "versions")

    def __init__(self, name: str, fields: tuple[Field, ...]) -> None:
        self.name = name
        self.fields = fields
        self.versions: tuple[int, int] | None = None
        self.flexible_since: int | None = None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def fields_in(self, version: int) -> list[Field]:
        """The untagged fields of a version, in the order in which they are written."""
        return [each for each in self.fields if each.tag is None and each.is_in(version)]

    def tagged_in(self, version: int) -> list[Field]:
        """The tagged fields of a version, by tag."""
        tagged = [each for each in self.fields if each.tag is not None and each.is_in(version)]
        return sorted(tagged, key=lambda each: each.tag or 0)


def schema_of(cls: type) -> MessageSchema:
    """The class's declaration; TypeError for a class that is not a message."""
    schema = getattr(cls, "__schema__", None)
    if not isinstance(schema, MessageSchema):
        raise TypeError(f"{cls.__name__} is not a message")
    return schema


class Message:
    """The base of all message classes: construction by keyword, equality and a readable form."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    __schema__: MessageSchema

    def __init__(self, **values: object) -> None:
        cls = type(self)
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _names(self))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names(self))
        return f"{type(self).__name__}({inside})"


def _names(message: Message) -> Iterator[str]:
    return (each.name for each in message.__schema__.fields)


def default_source(each: Field, names: dict[str, object]) -> str:
    """An expression for the field's default; what it refers to is put into `names`."""
    if each.default is not UNSET:
        return repr(each.default)
    if isinstance(each.kind, Array):
        return "[]"
    if isinstance(each.kind, Type):
        return repr(each.kind.default)
    names[f"_{each.kind.__name__}"] = each.kind
    return f"_{each.kind.__name__}()"


def _compile_init(cls: type[Message]) -> Callable[..., None]:
    """An `__init__` with one keyword per field; a default that can be changed is made anew for each message."""
    names: dict[str, object] = {"_UNSET": UNSET}
    arguments, body = [], []
    for each in cls.__schema__.fields:
        default = default_source(each, names)
        if default.endswith(("[]", ")")):
            arguments.append(f"{each.name}=_UNSET")
            body.append(f"    self.{each.name} = {default} if {each.name} is _UNSET else {each.name}")
        else:
            arguments.append(f"{each.name}={default}")
            body.append(f"    self.{each.name} = {each.name}")
    star = "*, " if arguments else ""
    source = f"def __init__(self, {star}{', '.join(arguments)}):\n" + ("\n".join(body) or "    pass") + "\n"
    exec(source, names)
    return cast("Callable[..., None]", names["__init__"])


def _build(cls: type, name: str | None) -> type:
    """The class as declared, made again with slots for its fields."""
    space = {key: value for key, value in cls.__dict__.items() if key not in ("__dict__", "__weakref__")}
    fields = []
    for key, value in cls.__dict__.items():
        if isinstance(value, Field):
            del space[key]
            value.name = sys.intern(key)
            fields.append(value)
    space["__slots__"] = tuple(each.name for each in fields)
    space["__schema__"] = MessageSchema(name or cls.__name__, tuple(fields))
    return type(cls.__name__, (Message,), space)


def _adopt(schema: MessageSchema, versions: tuple[int, int], flexible_since: int | None) -> None:
    schema.versions = versions
    schema.flexible_since = flexible_since
    for each in schema.fields:
        if each.struct is not None:
            _adopt(schema_of(each.struct), versions, flexible_since)


@dataclass_transform(kw_only_default=True)
def message(*, versions: tuple[int, int], flexible_since: int | None) -> Callable[[C], C]:
    """Declare a whole message: its first and last version, and the first one with tags and compact lengths."""

    def declare(cls: C) -> C:
        built = _build(cls, None)
        _adopt(schema_of(built), versions, flexible_since)
        return cast(C, built)

    return declare


@dataclass_transform(kw_only_default=True)
def struct(*, name: str | None = None) -> Callable[[C], C]:
    """Declare a part of a message; `name` is Kafka's where the module has another struct of that name."""

    def declare(cls: C) -> C:
        return cast(C, _build(cls, name))

    return declare
