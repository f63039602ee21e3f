"""The message types that a Protobuf schema defines: its text compiled by the protoc of grpcio-tools in this process.

protoc reads files only, so that the texts stand in a temporary directory while it runs; nothing else in formats/ may
touch one. A registry's client in Python registers a serialized descriptor in base64 instead of text: read as well.
"""

from __future__ import annotations

import ast
import base64
import binascii
import errno
import importlib.resources
import tempfile
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from ottla.formats.faults import SchemaFault
from ottla.formats.protobuf_imports import BUILT_IN, WELL_KNOWN
from ottla.formats.protobuf_nesting import MAX_NESTING, is_too_deep
from ottla.formats.writer import WriterSchema

MAIN = "ottla_schema.proto"
"""The name that a schema without one has among the files."""
_WELL_KNOWN = (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
_RESERVED = range(19_000, 20_000)
_one_at_a_time = threading.Lock()


class ProtocRefused(SchemaFault):
    """protoc's own words on a source."""


def run_protoc(main: str, sources: Mapping[str, str]) -> list[FileDescriptorProto]:
    """The descriptors of the source of this name and all its imports, each behind those it needs.

    Raises `ProtocRefused` with protoc's words, and `SchemaFault` where a source can have no such name.
    """
    from grpc_tools._protoc_compiler import ProtocErrors, get_protos

    included = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory(prefix="ottla-protoc-") as folder, _one_at_a_time:
        named = {name: text for name, text in BUILT_IN.items() if any(name in each for each in sources.values())}
        for name, source in {**named, **sources}.items():
            write_source(Path(folder), name, source)
        try:
            modules = get_protos(main.encode(), [folder.encode(), str(included).encode()])
        except ProtocErrors as fault:
            raise ProtocRefused("; ".join(_sentence(each) for each in fault.errors()) or str(fault)) from None
    files = [FileDescriptorProto.FromString(_embedded(module)) for _, module in modules]
    for file in files:
        _refuse_reserved_numbers(file)
    return files


def _refuse_reserved_numbers(file: FileDescriptorProto) -> None:
    """`ProtocRefused` for numbers that Protobuf reserves: protoc's command refuses them, its library does not."""
    fields, pending = list(file.extension), list(file.message_type)
    while pending:
        message = pending.pop()
        pending += message.nested_type
        fields += [*message.field, *message.extension]
    for field in fields:
        if field.number in _RESERVED:
            raise ProtocRefused(f"the field {field.name} has the number {field.number}: 19000 to 19999 are reserved")


def _sentence(error: object) -> str:
    """One of protoc's errors; it counts lines and columns from 0."""
    filename, message = (_text(getattr(error, name)) for name in ("filename", "message"))
    line, column = getattr(error, "line", -1), getattr(error, "column", -1)
    return f"{filename} line {line + 1}, column {column + 1}: {message}" if line >= 0 else f"{filename}: {message}"


def _text(content: bytes | str) -> str:
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else content


def _embedded(module: bytes) -> bytes:
    """The serialized descriptor inside a generated Python module."""
    for node in ast.walk(ast.parse(module)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "AddSerializedFile" and isinstance(node.args[0], ast.Constant):
            content = node.args[0].value
            assert isinstance(content, bytes)
            return content
    raise ProtocRefused("protoc made no descriptor")


def compiled(schema: WriterSchema) -> FileDescriptor:
    """The file that a schema's text is, in a pool of its own with all that it imports."""
    serialized = _serialized(schema.text)
    try:
        if serialized is not None:
            return _linked(serialized, dict(schema.named_references))
        files = _compile(schema.text, schema.named_references)
        pool = descriptor_pool.DescriptorPool()
        for file in files:
            pool.Add(file)
        return pool.FindFileByName(MAIN)
    except (TypeError, KeyError) as fault:
        raise SchemaFault(f"the Protobuf schema cannot be linked: {fault}") from None


def message_at(file: FileDescriptor, path: tuple[int, ...]) -> Descriptor | None:
    """The message type that a path of indexes names: the first is of the file, the next are of types inside it."""
    inside = list(file.message_types_by_name.values())
    found = None
    for index in path:
        if not 0 <= index < len(inside):
            return None
        found = inside[index]
        inside = list(found.nested_types)
    return found


def _serialized(text: str) -> FileDescriptorProto | None:
    """The descriptor, where the text is one in base64 and no schema language."""
    try:
        content = base64.b64decode(text, validate=True)
        found = FileDescriptorProto.FromString(content)
    except (binascii.Error, DecodeError, ValueError):
        return None
    return found if content and (found.message_type or found.enum_type or found.name) else None


def _linked(file: FileDescriptorProto, references: dict[str, str]) -> FileDescriptor:
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(one: FileDescriptorProto) -> None:
        for name in one.dependency:
            if name not in added:
                added.add(name)
                add(_dependency(name, references))
        pool.Add(one)

    file.name = MAIN  # its own name may be that of a well-known file, whose messages are read in ways of their own
    add(file)
    return pool.FindFileByName(MAIN)


def _dependency(name: str, references: dict[str, str]) -> FileDescriptorProto:
    for module in _WELL_KNOWN:
        if name == module.DESCRIPTOR.name:
            known = FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(known)
            return known
    if name in references:
        found = _serialized(references[name])
        if found is None:
            return _compile(references[name], tuple(references.items()), name=name)[-1]
        found.name = name
        return found
    if name in BUILT_IN:
        return _compile(BUILT_IN[name], (), name=name)[-1]
    raise SchemaFault(f"the Protobuf schema imports {name}, which is none of its references")


@lru_cache(maxsize=256)
def _compile(text: str, references: tuple[tuple[str, str], ...], name: str = MAIN) -> list[FileDescriptorProto]:
    """protoc's descriptors of the text and its imports, each behind those it needs. They are not to be changed."""
    try:
        return run_protoc(name, {**dict(references), name: text})
    except ProtocRefused as fault:
        raise SchemaFault(f"protoc refuses the Protobuf schema: {str(fault)[:500]}") from None


_OF_NAMES = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
"""Errors of a file that cannot be written because of its name, or beside that of another one."""


def write_source(directory: Path, name: str, content: str) -> None:
    """Write a source where protoc finds it; SchemaFault where it can have no such name, or is nested too deep."""
    place = PurePosixPath(name)
    if not place.parts or place.is_absolute() or ".." in place.parts or "\0" in name:
        raise SchemaFault(f"a Protobuf schema cannot be imported by the name {name[:100]!r}: it is not a relative path")
    if str(place) in WELL_KNOWN:
        return
    if is_too_deep(content):
        raise SchemaFault(f"the Protobuf schema {name} has braces nested more than {MAX_NESTING} deep")
    path = directory.joinpath(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as fault:
        if isinstance(fault, OSError) and fault.errno not in _OF_NAMES:
            raise
        raise SchemaFault(f"a Protobuf schema cannot be imported by the name {name[:100]!r}: {fault}") from None
