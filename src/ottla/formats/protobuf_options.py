"""Options of a Protobuf descriptor as `name = value`, those too that a schema defines itself by an extension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pool, json_format, message_factory, text_encoding
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

_DESCRIPTOR = "google/protobuf/descriptor.proto"
_BYTES, _GROUP = 12, 10


class OptionReader:
    """Reads options with the extensions of a file and of its imports; elsewhere they are bytes without a name."""

    def __init__(self, file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> None:
        self._pool = _linked(file, imports) if _DESCRIPTOR in imports else None

    def shown(self, options: Any, skip: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
        """The options that are set, as `name = value`."""
        for field, value in self._opened(options).ListFields():
            if field.name in skip or field.name == "uninterpreted_option" or (field.is_extension and not self._pool):
                continue
            name = f"(.{field.full_name})" if field.is_extension else field.name
            for each in value if field.is_repeated else [value]:
                yield f"{name} = {_value(field, each)}"

    def _opened(self, options: Any) -> Any:
        if self._pool is None:
            return options
        kind = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        return message_factory.GetMessageClass(kind).FromString(options.SerializeToString())


def params(field: FieldDescriptor) -> dict[str, str]:
    """The parameters that Confluent's `field_meta` gives a field; none if the file does not import that option."""
    try:
        kind = field.file.pool.FindMessageTypeByName("google.protobuf.FieldOptions")
    except KeyError:
        return {}
    options = message_factory.GetMessageClass(kind).FromString(field.GetOptions().SerializeToString())
    for each, value in options.ListFields():
        if each.full_name == "confluent.field_meta" and each.message_type is not None:
            return {name: str(given) for name, given in json_format.MessageToDict(value).get("params", {}).items()}
    return {}


def is_linkable(file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> bool:
    """True if a file and its imports make a valid whole."""
    return _linked(file, imports) is not None


def _linked(file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> Any:
    """A pool of the file and its imports; None if they do not fit together."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(one: FileDescriptorProto) -> None:
        for name in one.dependency:
            if name not in added and name in imports:
                added.add(name)
                add(imports[name])
        pool.Add(one)

    own = FileDescriptorProto()
    own.CopyFrom(file)
    own.name = "/"  # No import has this name.
    try:
        if _DESCRIPTOR in imports:
            added.add(_DESCRIPTOR)
            add(imports[_DESCRIPTOR])
        add(own)
    except TypeError:
        return None
    return pool


def _value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(known.name if known is not None else value)
    if field.message_type is not None:
        return "{ " + ", ".join(_members(value)) + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.type == _BYTES:
        return f'"{text_encoding.CEscape(value, False)}"'
    return quoted(value) if isinstance(value, str) else str(value)


def _members(message: Any) -> Iterator[str]:
    """The fields of a message inside an option, as Protobuf's text format has them."""
    for field, value in message.ListFields():
        name = f"[{field.full_name}]" if field.is_extension else field.name
        name = field.message_type.name if field.type == _GROUP and not field.is_extension else name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, of = (field.message_type.fields_by_name[each] for each in ("key", "value"))
            for each in sorted(value):
                yield f"{name}: {{ key: {_value(key, each)}, value: {_value(of, value[each])} }}"
        else:
            for each in value if field.is_repeated else [value]:
                yield f"{name}: {_value(field, each)}"


def quoted(text: str) -> str:
    """A string as a literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
