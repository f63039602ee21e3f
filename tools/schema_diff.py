"""Compare our message declarations with Apache Kafka's JSON definitions.

    python tools/schema_diff.py PATH

PATH is a Kafka checkout, a jar (kafka-clients; the group coordinator's for group records), or a folder of jars. Prints
`no difference`, or one line for each difference and exits with 1. A message that PATH does not define is skipped and
named on stderr.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ottla.messages
from ottla.schema.message import UNSET, Field, Message, schema_of
from ottla.schema.types import Array, Type
from ottla.wire.apis import APIS

MANY = 1 << 15
FIRST_TAG_OF_OURS = 100
"""Tagged fields from here on are ours alone; Kafka skips unknown tags."""
Json = dict[str, Any]
Range = tuple[int, int]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    definitions = read_definitions(Path(arguments[0]))
    missing = [cls.__name__ for cls in whole_messages() if cls.__name__ not in definitions]
    if len(missing) == len(whole_messages()):
        print(f"no message definitions in {arguments[0]}", file=sys.stderr)
        return 2
    if missing:
        print(f"not defined there: {', '.join(missing)}", file=sys.stderr)
    differences = list(all_differences(definitions))
    print("\n".join(differences) or "no difference")
    return 1 if differences else 0


def read_definitions(path: Path) -> dict[str, Json]:
    """Kafka's definitions by the name of the message."""
    texts: list[str] = []
    if path.is_file():
        texts = list(texts_in_jar(path))
    else:
        for jar in sorted(path.glob("*.jar")):
            texts += texts_in_jar(jar)
        for file in sorted(path.glob("*/src/main/resources/common/message/*.json")):
            texts.append(file.read_text())
    return {definition["name"]: definition for definition in map(parse, texts)}


def texts_in_jar(jar: Path) -> Iterator[str]:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                yield archive.read(name).decode()


def parse(text: str) -> Json:
    """Parse JSON with // comments; `//` inside a string is kept."""
    bare = re.sub(
        r'("(?:\\.|[^"\\])*")|//[^\n]*',
        lambda found: found.group(1) or "",
        text,
    )
    parsed: Json = json.loads(bare)
    return parsed


def whole_messages() -> list[type[Message]]:
    """Our message classes, without the structs inside them."""
    found: dict[str, type[Message]] = {}
    inside: set[type] = set()
    for module in pkgutil.iter_modules(ottla.messages.__path__):
        for cls in vars(importlib.import_module(f"ottla.messages.{module.name}")).values():
            if isinstance(cls, type) and issubclass(cls, Message) and cls is not Message:
                found[f"{cls.__module__}.{cls.__name__}"] = cls
                inside |= {each.struct for each in schema_of(cls).fields if each.struct is not None}
    return [cls for cls in found.values() if cls not in inside]


def all_differences(definitions: dict[str, Json]) -> Iterator[str]:
    for cls in whole_messages():
        if cls.__name__ in definitions:
            yield from message_differences(cls, definitions[cls.__name__])
    for api in APIS.values():
        definition = definitions.get(f"{api.name}Request")
        if definition is None:
            continue
        if definition["apiKey"] != api.key:
            yield f"{api.name}: key {api.key}, Kafka has {definition['apiKey']}"
        stable = versions_of(definition["validVersions"])[1] - bool(definition.get("latestVersionUnstable"))
        if api.announced.last != stable:
            yield f"{api.name}: announced up to {api.announced.last}, Kafka's last stable version is {stable}"


def message_differences(cls: type[Message], definition: Json) -> Iterator[str]:
    schema, name = schema_of(cls), cls.__name__
    valid = versions_of(definition["validVersions"])
    if schema.versions != valid:
        yield f"{name}: versions {schema.versions}, Kafka has {valid}"
    flexible = definition.get("flexibleVersions", "none")
    flexible_since = None if flexible == "none" else versions_of(flexible)[0]
    if schema.flexible_since != flexible_since:
        yield f"{name}: flexible since {schema.flexible_since}, Kafka {flexible_since}"
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", [])}
    yield from struct_differences(cls, definition["fields"], structs, valid, name)


def struct_differences(
    cls: type, theirs: list[Json], structs: dict[str, list[Json]], valid: Range, path: str
) -> Iterator[str]:
    ours = {each.name: each for each in schema_of(cls).fields if clip(each.since, each.until, valid)}
    ours = {name: each for name, each in ours.items() if each.tag is None or each.tag < FIRST_TAG_OF_OURS}
    expected = {snake_case(each["name"]): each for each in theirs if clip(*versions_in(each), valid)}
    if list(ours) != list(expected):
        yield f"{path}: fields {', '.join(ours)}; Kafka has {', '.join(expected)}"
    for name, each in ours.items():
        if name not in expected:
            continue
        definition = expected[name]
        for what, mine, kafkas in facets(each, definition, valid):
            if mine != kafkas:
                yield f"{path}.{name}: {what} {mine}, Kafka has {kafkas}"
        if each.struct is not None:
            fields = definition.get("fields") or structs.get(definition["type"].removeprefix("[]"))
            if fields is not None:
                yield from struct_differences(each.struct, fields, structs, valid, f"{path}.{name}")


def facets(each: Field, definition: Json, valid: Range) -> Iterator[tuple[str, object, object]]:
    """The properties of a field to compare: (property, our value, Kafka's value)."""
    there = clip(*versions_in(definition), valid)
    yield "type", type_name(each), definition["type"]
    yield "versions", clip(each.since, each.until, valid), there
    nullable = clip(max(each.nullable_since, each.since), each.until, valid)
    yield "nullable versions", nullable, clip(*versions_of(definition.get("nullableVersions", "none")), there or valid)
    yield "tag", each.tag, definition.get("tag")
    if "tag" in definition:
        yield "tagged versions", there, clip(*versions_of(definition["taggedVersions"]), valid)
    yield "default", default_of(each), kafka_default(definition)
    yield "keeps old lengths", not each.flexible, definition.get("flexibleVersions") == "none"


def type_name(each: Field) -> str:
    if isinstance(each.kind, Array):
        element = each.kind.element
        return "[]" + (element.name if isinstance(element, Type) else schema_of(element).name)
    return each.kind.name if isinstance(each.kind, Type) else schema_of(each.kind).name


def default_of(each: Field) -> object:
    if each.default is not UNSET:
        return each.default
    if isinstance(each.kind, Array):
        return []
    return each.kind.default if isinstance(each.kind, Type) else {}


KAFKA_DEFAULTS: dict[str, object] = {
    "bool": False,
    "string": "",
    "uuid": bytes(16),
    "bytes": b"",
    "records": None,
    "float64": 0.0,
}


def kafka_default(definition: Json) -> object:
    """The default in Kafka's generated code, which takes the text "null" for null, and JSON's null for none given."""
    kind, given = definition["type"], definition.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return {}
    if given is None:
        return KAFKA_DEFAULTS.get(kind, 0)
    if kind == "bool":
        return str(given).lower() == "true"
    if kind == "string":
        return given
    return float(given) if kind == "float64" else int(str(given), 0)


def versions_in(definition: Json) -> Range:
    """The versions of a field; a tagged field of the coordinators' records only states its tagged versions."""
    return versions_of(definition.get("versions") or definition["taggedVersions"])


def versions_of(text: str) -> Range:
    """`3-13`, `9+`, `4` or `none` as first and last version."""
    if text == "none":
        return (1, 0)
    if text.endswith("+"):
        return (int(text[:-1]), MANY)
    first, _, last = text.partition("-")
    return (int(first), int(last or first))


def clip(first: int, last: int, valid: Range) -> Range | None:
    """The part of a range that lies within the message's versions."""
    low, high = max(first, valid[0]), min(last, valid[1])
    return (low, high) if low <= high else None


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
