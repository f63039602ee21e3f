"""Avro schemas, changes to them and values of them, for hypothesis."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

Json = Any
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "b",
    "string": "s",
}
SYMBOLS = ("A", "B", "C", "D")


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2, counter: list[int] | None = None) -> Json:
    """A schema whose named types all have different names."""
    counter = counter if counter is not None else [0]
    kinds = ["primitive"] * 3 + (["record", "record", "enum", "fixed", "array", "map", "union"] if depth else ["enum"])
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    counter[0] += 1
    name = f"N{counter[0]}"
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
        default = {"default": symbols[0]} if draw(st.booleans()) else {}
        return {"type": "enum", "name": name, "symbols": symbols, **default}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(1, 3))}
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth - 1, counter))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1, counter))}
    if kind == "union":
        branches = [draw(schemas(depth - 1, counter)) for _ in range(draw(st.integers(1, 3)))]
        return _distinct(branches)
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    return {"type": "record", "name": name, "fields": [draw(fields(each, depth, counter)) for each in names]}


@st.composite
def fields(draw: st.DrawFn, name: str, depth: int, counter: list[int]) -> Json:
    kind = draw(schemas(depth - 1, counter))
    made = {"name": name, "type": kind}
    if isinstance(kind, str) and draw(st.booleans()):
        made["default"] = DEFAULTS[kind]
    return made


def _distinct(branches: list[Json]) -> list[Json]:
    """Branches of a union: no unions among them, and one of each type."""
    found: dict[str, Json] = {}
    for each in branches:
        if not isinstance(each, list):
            tag = each if isinstance(each, str) else each.get("name", each["type"])
            found.setdefault(tag, each)
    return list(found.values()) or ["null"]


@st.composite
def changed(draw: st.DrawFn, schema: Json) -> Json:
    """A changed schema: most changes are compatible, some are not."""
    made = copy.deepcopy(schema)
    return draw(_changed(made, draw(st.integers(0, 2))))


@st.composite
def _changed(draw: st.DrawFn, schema: Json, times: int) -> Json:
    if isinstance(schema, str):
        return (
            draw(st.sampled_from([schema] * 4 + list(PRIMITIVES) + [_distinct(["null", schema])])) if times else schema
        )
    if isinstance(schema, list):
        parts = [draw(_changed(each, times)) for each in schema]
        return _distinct(draw(st.permutations(parts)) + draw(st.sampled_from([[], ["null"], ["double"], ["string"]])))
    kind = schema["type"]
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {**schema, inner: draw(_changed(schema[inner], times))}
    if kind == "fixed":
        return {**schema, "size": draw(st.sampled_from([schema["size"]] * 3 + [4]))}
    if kind == "enum":
        symbols = draw(st.sampled_from([schema["symbols"], list(SYMBOLS), schema["symbols"][:1]]))
        rest = {key: value for key, value in schema.items() if key != "default"}
        default = {"default": symbols[0]} if draw(st.booleans()) else {}
        return {**rest, "symbols": symbols, **default}
    return {**schema, "fields": draw(_changed_fields(schema["fields"], times))}


@st.composite
def _changed_fields(draw: st.DrawFn, before: list[Json], times: int) -> list[Json]:
    made = []
    for each in before:
        choice = draw(st.sampled_from(["keep", "keep", "keep", "drop", "rename"]))
        field = {"name": each["name"], "type": draw(_changed(each["type"], times))}
        if choice == "rename":
            field = {**field, "name": f"{each['name']}2", "aliases": [each["name"]]}
        if choice != "drop":
            made.append(field)
    if draw(st.booleans()):
        made.append({"name": "new", "type": "int", **({"default": 7} if draw(st.booleans()) else {})})
    return made


def values(schema: Json) -> st.SearchStrategy[Any]:
    """Values that a writer with this schema may write. fastavro's tuples mark union branches."""
    if isinstance(schema, list):
        return st.one_of([st.tuples(st.just(_tag(each)), values(each)) for each in schema])
    kind = schema if isinstance(schema, str) else schema["type"]
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.text(max_size=4).map(str.encode),
        "string": st.text(max_size=4),
    }
    if kind in simple:
        return simple[kind]
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=2)
    if kind == "map":
        return st.dictionaries(st.text(max_size=3), values(schema["values"]), max_size=2)
    return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]})


def _tag(branch: Json) -> str:
    return branch if isinstance(branch, str) else branch.get("name", branch["type"])
