"""One owner for each fact: no attribute of these classes is assigned outside the modules that own them.

Called by tidy.py. The class of a receiver is found by its annotation or its initial value. A receiver of unknown
class counts as owned if it has the usual name, or if no other class has such an attribute.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "ottla"

Finding = tuple[int, str]


class Owned(NamedTuple):
    """A class, the modules that may assign its attributes, and the names that its objects usually have."""

    name: str
    modules: tuple[str, ...]
    usual_names: tuple[str, ...]


OWNED = (
    Owned("Log", ("storage/log.py", "storage/log_state.py"), ("log", "future", "current", "served", "opened", "kept")),
    Owned("LogBounds", ("storage/bounds.py",), ("bounds",)),
    Owned("SegmentChain", ("storage/segment/chain.py",), ("chain",)),
    Owned("WriteGate", ("storage/write_gate.py",), ("gate",)),
    Owned("LeaderReplica", ("replication/leader.py",), ("leader",)),
    Owned("Partition", ("broker/replicas/partition.py",), ("partition",)),
)


class Attributes(NamedTuple):
    """The attributes of the owned classes, by class, and those that any other class has."""

    owned: dict[str, frozenset[str]]
    others: frozenset[str]


@lru_cache(maxsize=1)
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """The nodes of a file, walked once for all rules."""
    return tuple(ast.walk(tree))


def foreign_assignments(module: str, tree: ast.Module, attributes: Attributes) -> Iterator[Finding]:
    """Assignments in a module (`storage/log.py`) to attributes that another module owns."""
    names = frozenset().union(*attributes.owned.values())
    if not any(is_foreign(target, names) for node in nodes(tree) for target in stored(node)):
        return  # most modules: the scopes need no look
    for scope, parents in scopes(tree):
        targets = [target for node in own_nodes(scope) for target in stored(node) if is_foreign(target, names)]
        known = classes_of_names([*parents, scope]) if targets else {}
        for target in targets:
            owner = owner_of(target, known, attributes)
            if owner is not None and module not in owner.modules:
                sentence = f"{ast.unparse(target)} belongs to {owner.name}: only {owner.modules[0]} may assign it"
                yield target.lineno, sentence


def owner_of(target: ast.Attribute, known: dict[str, set[str]], attributes: Attributes) -> Owned | None:
    """The owned class of an attribute, if the receiver shows it."""
    receiver = ast.unparse(target.value)
    for one in OWNED:
        if target.attr not in attributes.owned[one.name]:
            continue
        if receiver in known:
            if one.name in known[receiver]:
                return one
        elif receiver.rpartition(".")[2].lstrip("_") in one.usual_names or target.attr not in attributes.others:
            return one
    return None


# --- what is assigned ---


def is_foreign(target: ast.Attribute, names: frozenset[str]) -> bool:
    """True if an attribute of one of these names is assigned, and not to `self`."""
    return target.attr in names and not (isinstance(target.value, ast.Name) and target.value.id == "self")


def stored(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a node assigns or deletes, items of an attribute included."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node
    elif (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and isinstance(node.value, ast.Attribute)
    ):
        yield node.value


def scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """The module, its classes and functions, each with those around it."""
    waiting: list[tuple[ast.AST, list[ast.AST]]] = [(tree, [])]
    while waiting:
        scope, parents = waiting.pop()
        yield scope, parents
        inner = [node for node in own_nodes(scope) if is_scope(node)]
        waiting += [(node, [*parents, scope]) for node in inner]


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without the bodies of scopes inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not is_scope(node):
            waiting += ast.iter_child_nodes(node)


def is_scope(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


# --- of which class a name is ---


def classes_of_names(scopes: list[ast.AST]) -> dict[str, set[str]]:
    """Names (`log`, `self._log`) of known class, with the names in their annotation."""
    known: dict[str, set[str]] = {}
    for scope in scopes:
        if isinstance(scope, ast.ClassDef):
            for method in [node for node in scope.body if is_scope(node)]:
                inside = dict(known)
                note_names(method, inside)
                known |= {name: classes for name, classes in inside.items() if name.startswith("self.")}
        note_names(scope, known)
    return known


def note_names(scope: ast.AST, known: dict[str, set[str]]) -> None:
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = scope.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            known.pop(argument.arg, None)
            if argument.annotation is not None:
                known[argument.arg] = names_in(argument.annotation)
    assignments = [node for node in own_nodes(scope) if isinstance(node, ast.Assign | ast.AnnAssign)]
    for node in sorted(assignments, key=lambda node: node.lineno):
        if isinstance(node, ast.AnnAssign):
            name = ast.unparse(node.target)
            annotated = names_in(node.annotation)
            known[name if not isinstance(scope, ast.ClassDef) else f"self.{name}"] = annotated
        elif len(node.targets) == 1 and isinstance(node.targets[0], ast.Name | ast.Attribute):
            note_value(ast.unparse(node.targets[0]), node.value, known)


def note_value(name: str, value: ast.expr, known: dict[str, set[str]]) -> None:
    """Give a name the class of its value: that of another name, or the class that is called."""
    made = value.func if isinstance(value, ast.Call) else None
    if isinstance(made, ast.Attribute):
        made = made.value  # Log.open(...)
    if isinstance(made, ast.Name) and made.id[:1].isupper():
        known[name] = {made.id}
    elif ast.unparse(value) in known:
        known[name] = known[ast.unparse(value)]
    elif not name.startswith("self."):
        known.pop(name, None)


def names_in(annotation: ast.expr) -> set[str]:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


# --- which attributes there are ---


def attributes_in(modules: Iterable[tuple[str, ast.Module]]) -> Attributes:
    """The attributes of all classes of these modules, each with its path below the package."""
    owned: dict[str, frozenset[str]] = {one.name: frozenset() for one in OWNED}
    others: set[str] = set()
    for module, tree in modules:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = frozenset(attributes_of(node))
                owners = [one.name for one in OWNED if module in one.modules]
                for name in owners:
                    owned[name] |= names
                if not owners:
                    others |= names
    return Attributes(owned, frozenset(others))


def attributes_of(node: ast.ClassDef) -> Iterator[str]:
    """The attributes of a class: fields, properties, and all that methods assign to `self`."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.FunctionDef) and any(
            isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in statement.decorator_list
        ):
            yield statement.name
    for inside in ast.walk(node):
        if (
            isinstance(inside, ast.Attribute)
            and isinstance(inside.ctx, ast.Store)
            and isinstance(inside.value, ast.Name)
            and inside.value.id == "self"
        ):
            yield inside.attr


@cache
def tree_attributes() -> Attributes:
    """The attributes of all classes of the package."""
    paths = sorted(SOURCES.rglob("*.py"))
    return attributes_in((name_of(path), ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def name_of(path: Path) -> str:
    """The path of a file below the package, like `storage/log.py`."""
    return path.relative_to(SOURCES).as_posix()


def check(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Assignments in one file to attributes that another module owns."""
    if path.is_relative_to(SOURCES):
        yield from foreign_assignments(name_of(path), tree, tree_attributes())
