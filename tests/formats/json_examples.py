"""JSON Schemas, changes to them and documents, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = Any
NAMES = ("a", "b", "c")
TEXTS = ("", "x", "xy", "aaa", "b1")
VALUES = (1, 2, "x", "xy", True, None)
NUMBERS = (-3, 0, 1, 2, 1.5, 4, 10)

documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from((*NAMES, "d")), inner, max_size=3),
    ),
    max_leaves=6,
)


def schemas(depth: int = 2) -> st.SearchStrategy[Json]:
    """Schemas of draft 7 whose keywords often meet the documents above."""
    simple = st.one_of(
        st.booleans(),
        st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean", "null", "object"])}),
        st.fixed_dictionaries({"type": st.just("string")}, optional=_strings()),
        st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"])}, optional=_numbers()),
        st.fixed_dictionaries({}, optional={**_numbers(), **_strings()}),
        st.fixed_dictionaries(
            {"enum": st.lists(st.sampled_from([1, 2, "x", "xy", True, None]), min_size=1, unique_by=repr)}
        ),
        st.fixed_dictionaries({"const": st.sampled_from([1, "x", [1], {"a": 1}])}),
    )
    if not depth:
        return simple
    inner = schemas(depth - 1)
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        simple,
        st.fixed_dictionaries({"type": st.just("object")}, optional=_objects(inner)),
        st.fixed_dictionaries({"type": st.just("array")}, optional=_arrays(inner, some)),
        st.fixed_dictionaries({}, optional={**_objects(inner), **_arrays(inner, some)}),
        st.fixed_dictionaries({}, optional={"anyOf": some, "oneOf": some, "allOf": some, "not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
    )


def _strings() -> dict[str, Any]:
    return {
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "x", "[0-9]"]),
    }


def _numbers() -> dict[str, Any]:
    return {
        "minimum": st.integers(-3, 4),
        "maximum": st.integers(-3, 4),
        "exclusiveMinimum": st.integers(-3, 4),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
    }


def _objects(inner: Any) -> dict[str, Any]:
    return {
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^[ab]", "c"]), inner, max_size=1),
        "additionalProperties": inner,
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 3),
        "propertyNames": st.sampled_from([True, {"maxLength": 1}, {"enum": ["a", "b"]}]),
        "dependencies": st.dictionaries(st.sampled_from(NAMES), st.one_of(inner, st.just(["a"])), max_size=1),
    }


def _arrays(inner: Any, some: Any) -> dict[str, Any]:
    return {
        "items": st.one_of(inner, some),
        "additionalItems": inner,
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 3),
        "uniqueItems": st.booleans(),
        "contains": inner,
    }


@st.composite
def changed(draw: st.DrawFn, schema: Json, depth: int = 3) -> Json:
    """A changed schema: mostly looser, sometimes stricter."""
    choice = draw(st.sampled_from(["keep", "inside", "inside", "drop", "drop", "widen", "add", "new"]))
    if choice == "keep" or not depth or isinstance(schema, bool):
        return schema
    if choice == "widen":
        word = draw(st.sampled_from(["anyOf", "oneOf"]))
        return {word: draw(st.permutations([schema, draw(schemas(0))]))}
    if choice == "new":
        return draw(schemas(1))
    made = dict(schema)
    if choice == "add":
        return {**draw(st.sampled_from([{"minLength": 1}, {"maximum": 4}, {"required": ["a"]}])), **made}
    if choice == "drop" and made:
        del made[draw(st.sampled_from(sorted(made)))]
        return made
    for word, value in schema.items():
        if word in ("properties", "patternProperties") and value:
            name = draw(st.sampled_from(sorted(value)))
            made[word] = {**value, name: draw(changed(value[name], depth - 1))}
        elif word in ("anyOf", "oneOf", "allOf"):
            made[word] = [draw(changed(each, depth - 1)) for each in value]
        elif word in ("additionalProperties", "contains", "not") and isinstance(value, dict):
            made[word] = draw(changed(value, depth - 1))
    return made


def of_2020(schema: Json) -> Json:
    """A schema of draft 7, translated to draft 2020-12."""
    if isinstance(schema, list):
        return [of_2020(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for word, value in schema.items():
        if word in ("enum", "const"):
            made[word] = value
        elif word in ("properties", "patternProperties"):
            made[word] = {name: of_2020(each) for name, each in value.items()}
        elif word == "dependencies":
            for name, each in value.items():
                kind = "dependentRequired" if isinstance(each, list) else "dependentSchemas"
                made.setdefault(kind, {})[name] = each if isinstance(each, list) else of_2020(each)
        elif word != "additionalItems":
            made[word] = of_2020(value)
    if isinstance(schema.get("items"), list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in schema:
            made["items"] = of_2020(schema["additionalItems"])
    return made
