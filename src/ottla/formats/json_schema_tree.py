"""A JSON Schema with its references: which draft it is, and what its $refs point to. Drafts 4 to 2020-12."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ottla.formats.compatibility import InvalidSchema

Json = Any
"""A parsed JSON document, or a part of one."""

DEFAULT_DRAFT = 7
_INDEX = re.compile("[0-9]{1,9}")
MAX_DEPTH = 200
_DRAFTS = {"draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019, "2020-12": 2020}
_META = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data: what looks like a schema inside is none."""


@dataclass(slots=True, eq=False)
class JsonSchema:
    """A parsed schema. Parts are known by identity, so the document must not be copied."""

    document: Json
    """The document as it was given."""
    root: Json
    """Without keywords that its draft does not know; a validator would not look at them."""
    draft: int
    bases: dict[int, str] = field(default_factory=dict)
    """Identity of a part to the URI against which its $ref is resolved."""
    places: dict[str, Json] = field(default_factory=dict)
    """Absolute URIs, with anchors, to what they name."""

    def target(self, ref: Json, base: str) -> Json:
        """The target of a $ref; InvalidSchema where it is not a reference at all."""
        if not isinstance(ref, str):
            raise InvalidSchema("a $ref is not a string")
        found = self._find(urljoin(base, ref))
        if found is _NOWHERE:
            found = self._find(ref)
        if found is not _NOWHERE or "/" not in ref:
            return found
        document, fragment = urldefrag(ref)
        named = next((name for name in self.places if name and document.endswith(f"/{name}")), None)
        return found if named is None else self._find(f"{named}#{fragment}" if fragment else named)

    def _find(self, uri: str) -> Json:
        if uri in self.places:
            return self.places[uri]
        document, fragment = urldefrag(uri)
        if document not in self.places:
            return _NOWHERE
        return _pointed(self.places[document], unquote(fragment))


_MAPS = frozenset({"properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"})
"""Keywords that have schemas by name."""
_IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "$recursiveRef", "dependentSchemas"}
)
_SPANS = {
    **dict.fromkeys(("contains", "propertyNames"), (6, 2020)),
    **dict.fromkeys(("if", "then", "else"), (7, 2020)),
    **dict.fromkeys(("dependentRequired", "minContains", "maxContains", "$anchor"), (2019, 2020)),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), (2019, 2020)),
    **dict.fromkeys(("prefixItems", "$dynamicRef", "$dynamicAnchor"), (2020, 2020)),
    "additionalItems": (4, 2019),
    "$recursiveRef": (2019, 2019),
}
"""Keywords that not all drafts know: first and last draft."""


class _Nowhere:
    """The target of a $ref that leads outside."""


_NOWHERE = _Nowhere()


def parse_json_schema(text: str, references: Mapping[str, str]) -> JsonSchema:
    """Parse a schema whose $refs may name the texts in `references`; InvalidSchema where it is not valid."""
    document = _load(text)
    draft = _draft(document)
    _check_against_meta_schema(document, draft)
    schema = JsonSchema(document, _known(document, draft), draft)
    for name, source in references.items():
        _enter(schema, _known(_load(source), draft), name)
    _enter(schema, schema.root, "")
    for part in parts(schema.root):
        ref = part.get("$ref")
        if ref is None or isinstance(ref, dict) or _names_a_meta_schema(ref):
            continue
        if schema.target(ref, schema.bases.get(id(part), "")) is _NOWHERE:
            raise InvalidSchema(f"the $ref {ref!r} leads nowhere")
    return schema


def _load(text: str) -> Json:
    try:
        document = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as fault:
        raise InvalidSchema(f"not JSON: {fault}") from fault
    if not isinstance(document, dict | bool):
        raise InvalidSchema("a JSON Schema is an object, true or false")
    return document


def _no_constant(word: str) -> Json:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is out of range")
    return number


def _draft(document: Json) -> int:
    declared = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(declared, str):
        return DEFAULT_DRAFT
    return next((draft for name, draft in _DRAFTS.items() if name in declared), DEFAULT_DRAFT)


def _check_against_meta_schema(document: Json, draft: int) -> None:
    import jsonschema_rs

    if not isinstance(document, dict):
        return
    try:
        jsonschema_rs.meta.validate({**document, "$schema": _META[draft]})
    except jsonschema_rs.ValidationError as fault:
        where = "/".join(str(step) for step in fault.instance_path)
        raise InvalidSchema(f"{fault.message} (at /{where})") from fault
    except (ValueError, jsonschema_rs.ReferencingError) as fault:
        raise InvalidSchema(str(fault)) from fault


def _known(part: Json, draft: int) -> Json:
    """A copy of a schema without the keywords of other drafts."""
    if isinstance(part, list):
        return [_known(each, draft) for each in part]
    if not isinstance(part, dict):
        return part
    made = {}
    for word, value in part.items():
        first, last = _SPANS.get(word, (4, 2020))
        if word in _DATA:
            made[word] = value
        elif word in _MAPS and isinstance(value, dict):
            made[word] = {name: _known(each, draft) for name, each in value.items()}
        elif first <= draft <= last:
            made[word] = _known(value, draft)
    if draft == 4:
        made.pop("const", None)
    return _plainly_unevaluated(made) if draft >= 2019 else made


def _plainly_unevaluated(part: dict[str, Json]) -> dict[str, Json]:
    """Turn unevaluated... keywords into additional... ones if nothing beside them evaluates: both mean the same."""
    if _IN_PLACE & part.keys():
        return part
    if "unevaluatedProperties" in part and "additionalProperties" not in part:
        part["additionalProperties"] = part.pop("unevaluatedProperties")
    rest = "additionalItems" if isinstance(part.get("items"), list) else "items"
    if "unevaluatedItems" in part and rest not in part and "contains" not in part:
        part[rest] = part.pop("unevaluatedItems")
    return part


def _enter(schema: JsonSchema, document: Json, name: str) -> None:
    """Note where a document and what has an id in it can be found."""
    schema.places[name] = document
    pending = [(document, name, 0)]
    while pending:
        part, base, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidSchema(f"schemas are nested more than {MAX_DEPTH} deep")
        if isinstance(part, dict):
            own = part.get("$id", part.get("id") if schema.draft == 4 else None)
            if isinstance(own, str):
                absolute = urljoin(base, own)
                schema.places[absolute] = part
                base = base if own.startswith("#") else urldefrag(absolute)[0]
                schema.places.setdefault(base, part)
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(part.get(word), str):
                    schema.places[f"{base}#{part[word]}"] = part
            schema.bases[id(part)] = base
        pending += [(each, base, depth + 1) for each in _inside(part)]


def parts(document: Json) -> Iterator[dict[str, Json]]:
    """All objects in a schema that may be schemas."""
    pending = [document]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
        pending += _inside(part)


def _inside(part: Json) -> list[Json]:
    if isinstance(part, dict):
        return [each for word, each in part.items() if word not in _DATA and isinstance(each, dict | list)]
    return [each for each in part if isinstance(each, dict | list)] if isinstance(part, list) else []


def _names_a_meta_schema(ref: Json) -> bool:
    return isinstance(ref, str) and "json-schema.org/draft" in ref


def _pointed(document: Json, pointer: str) -> Json:
    """The part that a JSON pointer names."""
    found = document
    if pointer and not pointer.startswith("/"):
        return _NOWHERE
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            return _NOWHERE
    return found if isinstance(found, dict | bool) else _NOWHERE


def leads_outside(target: Json) -> bool:
    """True if a target is not a schema that we have."""
    return isinstance(target, _Nowhere)
