"""JSON Schemas opened for a comparison: $ref and allOf followed, alternatives taken out, and whether two are disjoint.

A *node* is a schema whose keywords all count. A part that is made here is made once, so that its identity stands for
it wherever the comparison comes back to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ottla.formats import json_facts as facts
from ottla.formats.json_facts import Json, Node
from ottla.formats.json_schema_tree import JsonSchema, leads_outside

MAX_STEPS = 20_000
MAX_NODES = 500_000
"""Bounds the nodes and values that all steps together look at: a schema may have 100,000 parts in one allOf or enum."""
ALTERNATIVES = ("anyOf", "oneOf")


class TooComplex(Exception):
    """The comparison takes more steps than anybody should wait for."""


class Openings:
    """The parts of two schemas, the reader's and the writer's."""

    def __init__(self, reader: JsonSchema, writer: JsonSchema) -> None:
        self._schemas = (reader, writer)
        self._homes: dict[int, tuple[JsonSchema, str]] = {}
        self._made: dict[tuple[int, str], Node] = {}
        self._values: dict[str, Node] = {}
        self._kept: list[Json] = []
        self._steps = 0
        self._nodes = 0

    def step(self, nodes: int = 0) -> None:
        """Count one step of the comparison, and the nodes it looks at; TooComplex after too many."""
        self._steps += 1
        self.weigh(nodes)
        if self._steps > MAX_STEPS:
            raise TooComplex

    def weigh(self, parts: int) -> None:
        """Count nodes, or values that are listed, that a step looks at; TooComplex after too many."""
        self._nodes += parts
        if self._nodes > MAX_NODES:
            raise TooComplex

    def opened(self, writers: Sequence[Json]) -> list[Node] | None:
        """The schemas with those that their $ref and allOf name; None where no document passes."""
        found: dict[int, Node] = {}
        seen: set[int] = set()
        pending = deque(writers)
        while pending:
            each = pending.popleft()
            if each is False:
                return None
            if each is True or id(each) in seen:
                continue
            seen.add(id(each))
            if "$ref" in each:
                target, home = self.target(each)
                if not leads_outside(target):
                    pending.append(target)
                if home.draft <= 7:
                    continue
                each = self.without(each, "$ref")
            if "allOf" in each:
                pending += each["allOf"]
                each = self.without(each, "allOf")
            if each:
                found[id(each)] = each
        return list(found.values())

    def target(self, part: Node) -> tuple[Json, JsonSchema]:
        if id(part) in self._homes:
            home, base = self._homes[id(part)]
        else:
            home = next((each for each in self._schemas if id(part) in each.bases), self._schemas[0])
            base = home.bases.get(id(part), "")
        return home.target(part["$ref"], base), home

    # -- disjointness ---

    def disjoint(self, one: Json, others: Sequence[Json], depth: int = 8) -> bool:
        """True if surely no document passes both `one` and all `others`."""
        left, right = self.opened([one]), self.opened(others)
        if left is None or right is None:
            return True
        self.step()
        if depth == 0:
            return False
        if not facts.types_of(left) & facts.types_of(right):
            return True
        if facts.values_differ(left, right):
            return True
        if self._apart(left, right, depth) or self._apart(right, left, depth):
            return True
        return self._objects_disjoint(left, right, depth)

    def _apart(self, split: list[Node], whole: list[Node], depth: int) -> bool:
        """True if all alternatives of one side are apart from the other."""
        for node in split:
            for word in ALTERNATIVES:
                if isinstance(node.get(word), list):
                    return all(self.disjoint(each, whole, depth - 1) for each in node[word])
        return False

    def _objects_disjoint(self, left: list[Node], right: list[Node], depth: int) -> bool:
        """True if a property that must be there cannot be what both want."""
        if (facts.types_of(left) & facts.types_of(right)) != {"object"}:
            return False
        for name in sorted(facts.required(left) | facts.required(right)):
            mine, theirs = facts.property_schemas(left, name), facts.property_schemas(right, name)
            if False in mine or False in theirs:
                return True
            if mine and theirs and self.disjoint(self._all_of(mine), theirs, depth - 1):
                return True
        return False

    # -- nodes made here ---

    def _all_of(self, schemas: list[Json]) -> Json:
        if len(schemas) == 1:
            return schemas[0]
        made = {"allOf": schemas}
        self._kept.append(made)
        return made

    def without(self, node: Node, word: str) -> Node:
        """A node without a keyword; always the same object, so that recursion is noticed."""
        key = (id(node), word)
        if key not in self._made:
            made = {name: value for name, value in node.items() if name != word}
            self._made[key] = made
            home = next((each for each in self._schemas if id(node) in each.bases), None)
            if id(node) in self._homes:
                self._homes[id(made)] = self._homes[id(node)]
            elif home is not None:
                self._homes[id(made)] = (home, home.bases[id(node)])
        return self._made[key]

    def only(self, value: Json) -> Node:
        return self._values.setdefault(f"value {facts.json_key(value)}", facts.only(value))

    def typed(self, word: str) -> Node:
        return self._values.setdefault(f"type {word}", {"type": word})
