"""Checks that a JSON Schema reader accepts every document that a writer's schema accepts.

Each keyword of the reader must follow from what the writer's schema says. Where that cannot be shown the answer is
no, so what is accepted really reads; some pairs are refused although no document would tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ottla.formats import json_facts as facts
from ottla.formats.compatibility import Incompatibility
from ottla.formats.json_facts import NUMBERS, Json, Node
from ottla.formats.json_openings import ALTERNATIVES, MAX_STEPS, Openings, TooComplex
from ottla.formats.json_schema_tree import JsonSchema, leads_outside, parts

_REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
Found = list[Incompatibility]


def json_incompatibilities(reader: JsonSchema, writer: JsonSchema) -> Found:
    """The reasons why `reader` may refuse a document that `writer` lets pass; none where it cannot."""
    return _Comparison(reader, writer).check(reader.root, (writer.root,), "")


class _Comparison(Openings):
    """Compares two schemas.

    `nodes` are schemas that a document passes all at once: the writer's, with allOf and $ref opened.
    """

    def __init__(self, reader: JsonSchema, writer: JsonSchema) -> None:
        super().__init__(reader, writer)
        self._asserts_format = reader.draft <= 7
        self._open: dict[tuple[int, frozenset[int]], int] = {}
        """Pairs that are being compared, and how deep in the document that began."""
        self._depth = 0
        self._lists: dict[tuple[int, str], frozenset[str]] = {}

    # -- the whole ---

    def check(self, reader: Json, writers: Sequence[Json], path: str) -> Found:
        """Reasons why a document could pass all `writers` and not `reader`."""
        if path:
            return self._check(reader, writers, path)
        try:
            return self._check(reader, writers, path)
        except TooComplex:
            return [Incompatibility("TOO_COMPLEX", path, f"not decided within {MAX_STEPS} steps")]

    def _check(self, reader: Json, writers: Sequence[Json], path: str) -> Found:
        self.step(len(writers))
        if reader is True or reader == {}:
            return []
        if any(_same(each, reader) for each in writers):
            return []
        nodes = self.opened(writers)
        values = None if nodes is None else facts.values_of(nodes)
        self.weigh(len(values or ()))
        if nodes is None or not facts.types_of(nodes) or values == []:
            return []
        if reader is False:
            return [Incompatibility("NOTHING_ALLOWED", path, "the reader allows nothing here")]
        if any(_same(node, reader) for node in nodes):
            return []
        pair = (id(reader), frozenset(id(node) for node in nodes))
        if pair in self._open:
            if self._open[pair] < self._depth:
                return []  # The same pair further inside a document: documents end.
            return [Incompatibility("NOT_COMPARABLE", path, "the comparison leads back to itself")]
        self._open[pair] = self._depth
        try:
            found = self._implied(reader, nodes, path)
            return self._split(reader, nodes, path, found) if found else []
        finally:
            del self._open[pair]

    def _split(self, reader: Node, nodes: list[Node], path: str, found: Found) -> Found:
        """Look at the writer's alternatives one by one: the reader must take each."""
        values = facts.values_of(nodes)
        if values is not None:
            single = [self.only(value) for value in values]
            split = [id(node) for node in nodes] != [id(node) for node in single]
            if split and not any(self._check(reader, (node,), path) for node in single):
                return []
        for node in nodes:
            for word in ALTERNATIVES:
                if isinstance(node.get(word), list):
                    rest = [each for each in nodes if each is not node] + [self.without(node, word)]
                    return next((why for each in node[word] if (why := self._check(reader, [*rest, each], path))), [])
        types = facts.types_of(nodes)
        if len(types) > 1 and any(word in reader for word in ("anyOf", "oneOf", "not", "if", "$ref", "allOf")):
            groups = sorted(
                {"number" if types >= NUMBERS and each in NUMBERS else each for each in types} - {"fraction"}
            )
            if len(groups) > 1:
                return next(
                    (why for each in groups if (why := self._check(reader, [*nodes, self.typed(each)], path))), []
                )
        return found

    # -- the reader's keywords ---

    def _implied(self, reader: Node, nodes: list[Node], path: str) -> Found:
        if "$ref" in reader:
            target, home = self.target(reader)
            if leads_outside(target):
                return [
                    Incompatibility("REFERENCE_CHANGED", f"{path}/$ref", "the $ref leads to a schema that is not here")
                ]
            found = self._check(target, nodes, path or "#")
            if found or home.draft <= 7:
                return found
        types = facts.types_of(nodes)
        found = self._type(reader, nodes, types, path)
        if found:
            return found
        if types & NUMBERS:
            found += self._numbers(reader, nodes, path)
        if "string" in types:
            found += self._strings(reader, nodes, path)
        self._depth += 1
        if "array" in types:
            found += self._arrays(reader, nodes, path)
        if "object" in types:
            found += self._objects(reader, nodes, path)
        self._depth -= 1
        if "object" in types:
            found += self._dependencies(reader, nodes, path)
        return found + self._combined(reader, nodes, path)

    def _type(self, reader: Node, nodes: list[Node], types: frozenset[str], path: str) -> Found:
        if "type" in reader:
            more = types - facts.atoms(reader["type"])
            if more:
                detail = f"the writer also allows {', '.join(sorted(more))}"
                return [Incompatibility("TYPE_NARROWED", f"{path}/type", detail)]
        for word in ("enum", "const"):
            if word in reader:
                allowed = self._listed(reader, word)
                values = facts.values_of(nodes)
                if values is None or any(facts.json_key(value) not in allowed for value in values):
                    detail = "the writer allows values that the reader does not list"
                    return [Incompatibility("ENUM_ARRAY_NARROWED", f"{path}/{word}", detail)]
        return []

    def _listed(self, reader: Node, word: str) -> frozenset[str]:
        """The values that `enum` or `const` of the reader lists; they are asked for with each value of the writer."""
        if (id(reader), word) not in self._lists:
            listed = reader["enum"] if word == "enum" else [reader["const"]]
            self._lists[id(reader), word] = frozenset(map(facts.json_key, listed))
            self._kept.append(reader)
        return self._lists[id(reader), word]

    def _numbers(self, reader: Node, nodes: list[Node], path: str) -> Found:
        found = []
        for word, bound in (("minimum", facts.lower_bound), ("maximum", facts.upper_bound)):
            wanted = bound(reader)
            known = max((each for node in nodes if (each := bound(node)) is not None), default=None)
            if wanted is not None and (known is None or known < wanted):
                found.append(_narrowed(word, path))
        if "multipleOf" in reader:
            step = Fraction(str(reader["multipleOf"]))
            known_steps = [Fraction(str(node["multipleOf"])) for node in nodes if "multipleOf" in node]
            known_steps += [Fraction(1)] if "fraction" not in facts.types_of(nodes) else []
            if not any(each % step == 0 for each in known_steps):
                found.append(_narrowed("multipleOf", path))
        return found

    def _strings(self, reader: Node, nodes: list[Node], path: str) -> Found:
        found = _sizes(reader, nodes, "minLength", "maxLength", path)
        if "pattern" in reader and not any(_has_pattern(node, reader["pattern"]) for node in nodes):
            found.append(_narrowed("pattern", path))
        wanted = reader.get("format") if self._asserts_format else None
        if wanted is not None and not any(node.get("format") == wanted for node in nodes):
            found.append(_narrowed("format", path))
        return found

    def _arrays(self, reader: Node, nodes: list[Node], path: str) -> Found:
        found = _sizes(reader, nodes, "minItems", "maxItems", path)
        most = facts.number(nodes, "maxItems", least=False)
        if reader.get("uniqueItems") is True:
            known = any(node.get("uniqueItems") is True for node in nodes)
            if not known and (most is None or most > 1):
                found.append(_narrowed("uniqueItems", path))
        prefix, rest = facts.items_of(reader)
        longest = max([len(prefix), *(len(facts.items_of(node)[0]) for node in nodes)])
        for index in range(longest + 1):
            if most is None or index < most:
                wanted = prefix[index] if index < len(prefix) else rest
                found += self._check(wanted, facts.item_schemas(nodes, index), f"{path}/items/{index}")
        return found + self._contains(reader, nodes, path)

    def _contains(self, reader: Node, nodes: list[Node], path: str) -> Found:
        if "contains" not in reader:
            return []
        least = reader.get("minContains", 1)
        for node in nodes:
            if "contains" not in node:
                continue
            same_most = "maxContains" not in reader or (
                _equal(node["contains"], reader["contains"])
                and not _refers(node["contains"])
                and "maxContains" in node
                and node["maxContains"] <= reader["maxContains"]
            )
            enough = node.get("minContains", 1) >= least
            if same_most and enough and not self._check(reader["contains"], (node["contains"],), f"{path}/contains"):
                return []
        return [] if least == 0 and "maxContains" not in reader else [_narrowed("contains", path)]

    def _objects(self, reader: Node, nodes: list[Node], path: str) -> Found:
        found = _sizes(reader, nodes, "minProperties", "maxProperties", path)
        sure = facts.required(nodes)
        if found and len(sure) >= reader.get("minProperties", 0):
            found = [each for each in found if not each.path.endswith("minProperties")]
        for name in reader.get("required", ()) if isinstance(reader.get("required"), list) else ():
            if name not in sure:
                detail = f"the writer need not have the property {name}"
                found.append(Incompatibility("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", detail))
        for name, wanted in reader.get("properties", {}).items():
            schemas = facts.property_schemas(nodes, name)
            why = self._check(wanted, schemas, f"{path}/properties/{name}")
            if why and not schemas:
                detail = f"the writer allows any value as the property {name}, which it does not name"
                why = [Incompatibility("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", f"{path}/properties/{name}", detail)]
            found += why
        found += self._pattern_properties(reader, nodes, path)
        found += self._additional_properties(reader, nodes, path)
        return found + self._property_names(reader, nodes, path)

    def _pattern_properties(self, reader: Node, nodes: list[Node], path: str) -> Found:
        found: Found = []
        for pattern, wanted in facts.patterns(reader).items():
            where = f"{path}/patternProperties/{pattern}"
            same = [facts.patterns(node)[pattern] for node in nodes if pattern in facts.patterns(node)]
            for name in facts.named(nodes):
                if facts.matches(pattern, name, unsure=True):
                    found += self._check(wanted, facts.property_schemas(nodes, name), where)
            for node in nodes:
                for other, schema in facts.patterns(node).items():
                    if other != pattern:
                        found += self._check(wanted, [schema, *same], where)
            free = [] if same else facts.other_schemas(nodes)
            found += self._check(wanted, [*same, *free], where)
        return found

    def _additional_properties(self, reader: Node, nodes: list[Node], path: str) -> Found:
        wanted = reader.get("additionalProperties", True)
        where = f"{path}/additionalProperties"
        known = facts.patterns(reader)
        found: Found = []
        for name in facts.named(nodes):
            if name not in reader.get("properties", {}) and not any(
                facts.matches(each, name, unsure=False) for each in known
            ):
                found += self._check(wanted, facts.property_schemas(nodes, name), f"{path}/properties/{name}")
        for node in nodes:
            for pattern, schema in facts.patterns(node).items():
                if pattern not in known:
                    found += self._check(wanted, [schema], where)
        return found + self._check(wanted, facts.other_schemas(nodes), where)

    def _property_names(self, reader: Node, nodes: list[Node], path: str) -> Found:
        if "propertyNames" not in reader:
            return []
        known = [node["propertyNames"] for node in nodes if "propertyNames" in node]
        closed = any(each is False for each in facts.other_schemas(nodes)) and not any(map(facts.patterns, nodes))
        where = f"{path}/propertyNames"
        if closed:
            names = [self.only(name) for name in facts.named(nodes)]
            return [why for node in names for why in self._check(reader["propertyNames"], (node,), where)]
        return self._check(reader["propertyNames"], [*known, self.typed("string")], where)

    def _dependencies(self, reader: Node, nodes: list[Node], path: str) -> Found:
        found = []
        sure = facts.required(nodes)
        for word in ("dependencies", "dependentRequired", "dependentSchemas"):
            for name, wanted in reader.get(word, {}).items():
                if any(each is False for each in facts.property_schemas(nodes, name)):
                    continue
                same = any(_equal(_dependency(node, name), wanted) and not _refers(wanted) for node in nodes)
                if isinstance(wanted, list):
                    given = {
                        each
                        for node in nodes
                        if isinstance(each_list := _dependency(node, name), list)
                        for each in each_list
                    }
                    same = same or set(wanted) <= (sure | given)
                if not same and (isinstance(wanted, list) or self._check(wanted, nodes, f"{path}/{word}/{name}")):
                    found.append(_narrowed(f"{word}/{name}", path))
        return found

    # -- combinations in the reader ---

    def _combined(self, reader: Node, nodes: list[Node], path: str) -> Found:
        found: Found = []
        for index, part in enumerate(reader.get("allOf", ())):
            found += self._check(part, nodes, f"{path}/allOf/{index}")
        if "anyOf" in reader and not self._any_of(reader["anyOf"], nodes, path):
            found.append(
                Incompatibility("COMBINED_TYPE_SUBSCHEMAS_CHANGED", f"{path}/anyOf", "no branch takes everything")
            )
        if "oneOf" in reader and not self._one_of(reader["oneOf"], nodes, path):
            detail = "no branch takes everything that no other takes"
            found.append(Incompatibility("COMBINED_TYPE_SUBSCHEMAS_CHANGED", f"{path}/oneOf", detail))
        if "not" in reader and not self._excluded(reader["not"], nodes, path):
            found.append(Incompatibility("NOT_TYPE_EXTENDED", f"{path}/not", "the writer may write what is excluded"))
        if "if" in reader:
            found += self._conditional(reader, nodes, path)
        for word in ("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"):
            if word in reader and reader[word] is not True:
                found.append(Incompatibility("NOT_COMPARABLE", f"{path}/{word}", "only equal schemas can be compared"))
        return found

    def _any_of(self, branches: list[Json], nodes: list[Node], path: str) -> bool:
        return any(not self._check(each, nodes, f"{path}/anyOf") for each in branches)

    def _one_of(self, branches: list[Json], nodes: list[Node], path: str) -> bool:
        """True if one branch takes all that the writer lets pass, and no other branch any of it."""
        for chosen in branches:
            others = [each for each in branches if each is not chosen]
            if all(self.disjoint(each, nodes) for each in others) and not self._check(chosen, nodes, f"{path}/oneOf"):
                return True
        return self._one_of_one_of(branches, nodes, path)

    def _one_of_one_of(self, branches: list[Json], nodes: list[Node], path: str) -> bool:
        """Compare oneOf with oneOf: a reader's branch inside one that the writer excludes need not be disjoint."""
        for node in nodes:
            if not isinstance(node.get("oneOf"), list):
                continue
            rest = [each for each in nodes if each is not node] + [self.without(node, "oneOf")]
            if all(self._takes_one(branches, node["oneOf"], each, rest, path) for each in node["oneOf"]):
                return True
        return False

    def _takes_one(self, branches: list[Json], written: list[Json], choice: Json, rest: list[Node], path: str) -> bool:
        opened = self.opened([*rest, choice])
        if opened is None:
            return True
        excluded = [each for each in written if each is not choice]
        for chosen in branches:
            if self._check(chosen, opened, f"{path}/oneOf"):
                continue
            others = [each for each in branches if each is not chosen]
            if all(self.disjoint(each, opened) or self._inside(each, excluded, path) for each in others):
                return True
        return False

    def _inside(self, branch: Json, excluded: list[Json], path: str) -> bool:
        """True if all that a branch takes is taken by something that is excluded."""
        return any(not self._check(each, (branch,), f"{path}/oneOf") for each in excluded)

    def _excluded(self, unwanted: Json, nodes: list[Node], path: str) -> bool:
        if self.disjoint(unwanted, nodes):
            return True
        return any("not" in node and not self._check(node["not"], (unwanted,), f"{path}/not") for node in nodes)

    def _conditional(self, reader: Node, nodes: list[Node], path: str) -> Found:
        words = ("if", "then", "else")
        mine = {word: reader.get(word) for word in words}
        if not _refers(mine) and any(_equal({word: node.get(word) for word in words}, mine) for node in nodes):
            return []
        found = []
        for word in ("then", "else"):
            found += self._check(reader.get(word, True), nodes, f"{path}/{word}")
        return found


def _sizes(reader: Node, nodes: list[Node], least: str, most: str, path: str) -> Found:
    found = []
    for word, is_least in ((least, True), (most, False)):
        wanted = reader.get(word)
        if wanted is None or (is_least and wanted == 0):
            continue
        known = facts.number(nodes, word, least=is_least)
        if known is None or (known < wanted if is_least else known > wanted):
            found.append(_narrowed(word, path))
    return found


def _narrowed(word: str, path: str) -> Incompatibility:
    kind = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in word.split("/", maxsplit=1)[0])
    return Incompatibility(f"{kind}_NARROWED", f"{path}/{word}", "the writer's schema does not promise it")


def _has_pattern(node: Node, pattern: str) -> bool:
    value = node.get("const")
    return node.get("pattern") == pattern or (isinstance(value, str) and facts.matches(pattern, value, unsure=False))


def _dependency(node: Node, name: str) -> Json:
    return next((node[word][name] for word in _DEPENDENCIES if name in node.get(word, {})), None)


_DEPENDENCIES = ("dependencies", "dependentRequired", "dependentSchemas")


def _same(one: Json, other: Json) -> bool:
    """True if two schemas surely let the same documents pass, by their text."""
    return one is other or (isinstance(one, dict) and _equal(one, other) and not _refers(one))


def _equal(one: Json, other: Json) -> bool:
    """Equality as JSON has it; Python takes 1 for true."""
    return bool(one == other) and facts.json_key(one) == facts.json_key(other)


def _refers(schema: Json) -> bool:
    """True if a schema refers to others: the same text may then mean different things."""
    return any(_REFERRING & part.keys() for part in parts(schema))
