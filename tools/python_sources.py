"""Declarations as they stand in the sources of ottla: classes, functions, signatures, docstrings, fields.

Sources are parsed and never imported: reading them needs neither Spark nor pytest, and gives the same text everywhere.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
_LONGEST_LINE = 100
_VALUES = {"NamedTuple", "IntEnum", "Enum"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Declared = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Found:
    """A declaration and the module that it stands in."""

    module: str
    name: str
    node: Declared

    @property
    def doc(self) -> str:
        """The docstring, or the text behind a constant."""
        if isinstance(self.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return ast.get_docstring(self.node) or ""
        return _text_behind(tree(self.module).body, self.node)


@dataclass(frozen=True)
class Field:
    """A field of a class of values, or a member of an enumeration, which has no type."""

    name: str
    kind: str
    default: str
    doc: str


def find(module: str, name: str) -> Found:
    """A public name of a module, followed through the imports that hand it on."""
    for node in tree(module).body:
        if name in _names(node):
            return Found(module, name, node)  # type: ignore[arg-type]
    for source, declared, alias in handed_on(module):
        if alias == name:
            return find(source, declared)
    raise LookupError(f"{module} has no {name}")


def handed_on(module: str) -> Iterator[tuple[str, str, str]]:
    """The names of ottla that a module imports: where from, the name there, the name here."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ottla."):
            for alias in node.names:
                yield node.module or "", alias.name, alias.asname or alias.name


@cache
def tree(module: str) -> ast.Module:
    """The parsed source of a module or package."""
    return ast.parse(_text(module))


@cache
def _text(module: str) -> str:
    place = SOURCES.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return path.read_text(encoding="utf-8")


def public_methods(found: Found) -> list[Found]:
    """The methods and properties of a class that its users call, in the order of the source.

    Then come those that both faces of the client have (`ottla.client.faces`): awaited on the asyncio one.
    """
    assert isinstance(found.node, ast.ClassDef)
    methods = []
    for node in found.node.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            methods.append(Found(found.module, node.name, node))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) == "on_plan":
            methods.append(_on_plan(found.module, _names(node)[0], node.value.args[0]))
    for base in (base for base in bases(found) if base.endswith("Calls")):
        methods += [_on_face(found.module, each) for each in public_methods(find(found.module, base))]
    return [each for each in methods if not each.name.startswith("_") or each.name in ("__iter__", "__aiter__")]


def _on_face(face: str, method: Found) -> Found:
    """A method as the face in this module has it: awaited on the asyncio one, whose examples are those of the class."""
    assert isinstance(method.node, Function)
    declared = vars(method.node)
    if ".aio." in face:
        told = ast.Expr(ast.Constant(method.doc.partition("\n\n    ")[0]))
        return Found(method.module, method.name, type(method.node)(**{**declared, "body": [told]}))
    return Found(method.module, method.name, ast.FunctionDef(**declared))


def _on_plan(module: str, name: str, story: ast.expr) -> Found:
    """The method that `name = on_plan(stories.story)` declares: the story without the cluster's plan."""
    assert isinstance(story, ast.Attribute) and isinstance(story.value, ast.Name)
    declared = find(_imported(module, story.value.id), story.attr)
    assert isinstance(declared.node, ast.AsyncFunctionDef)
    told = declared.node
    parameters = ast.arguments(**{**vars(told.args), "args": [ast.arg("self"), *told.args.args[1:]]})
    return Found(declared.module, name, ast.AsyncFunctionDef(**{**vars(told), "args": parameters}))


def _imported(module: str, alias: str) -> str:
    """The module that another one imports under a name."""
    return next(f"{place}.{name}" for place, name, given in handed_on(module) if given == alias)


def other_names(found: Found) -> dict[str, list[str]]:
    """The further names of a class's methods, as `send_offsets = send_offsets_to_transaction` gives them."""
    assert isinstance(found.node, ast.ClassDef)
    names: dict[str, list[str]] = {}
    for base in (base for base in bases(found) if base.endswith("Calls")):
        names |= other_names(find(found.module, base))
    for node in found.node.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            names.setdefault(node.value.id, []).extend(_names(node))
    return names


def initializer(found: Found) -> Function | None:
    """`__init__` of a class, where it has one of its own."""
    assert isinstance(found.node, ast.ClassDef)
    functions = (node for node in found.node.body if isinstance(node, ast.FunctionDef))
    return next((node for node in functions if node.name == "__init__"), None)


def bases(found: Found) -> list[str]:
    """The names of the classes that a class is made from."""
    assert isinstance(found.node, ast.ClassDef)
    return [ast.unparse(base) for base in found.node.bases]


def is_class_method(found: Found) -> bool:
    """True if a method is called on the class, not on an object of it."""
    return isinstance(found.node, ast.FunctionDef | ast.AsyncFunctionDef) and "classmethod" in {
        _called(decorator) for decorator in found.node.decorator_list
    }


def is_value(found: Found) -> bool:
    """True for dataclasses, named tuples and enumerations, whose fields say everything."""
    assert isinstance(found.node, ast.ClassDef)
    decorators = {_called(decorator) for decorator in found.node.decorator_list}
    return bool(decorators & {"dataclass", "struct", "message"} or _VALUES.intersection(bases(found)))


def fields(found: Found) -> list[Field]:
    """The public fields or members of a class of values, in order."""
    assert isinstance(found.node, ast.ClassDef)
    listed = []
    for node in found.node.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind, default = _kind_and_default(found.module, node)
            listed.append(Field(node.target.id, kind, default, _text_behind(found.node.body, node)))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            doc = _text_behind(found.node.body, node)
            listed.append(Field(node.targets[0].id, "", _source(found.module, node.value), doc))
    return [field for field in listed if not field.name.startswith("_")]


def _kind_and_default(module: str, node: ast.AnnAssign) -> tuple[str, str]:
    """The type and default of a field; of a setting what may be given for it (`Setting` of ottla.client.settings)."""
    declared = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
    if isinstance(node.value, ast.Call) and isinstance(declared, ast.Name) and declared.id == _called(node.value):
        default = _source(module, node.value.args[0])
        base = find(module, declared.id).node.bases[0]  # type: ignore[union-attr]
        assert isinstance(base, ast.Subscript) and isinstance(base.slice, ast.Tuple | ast.Name)
        if isinstance(base.slice, ast.Name):
            return f"str | {base.slice.id}", default
        taken = base.slice.elts[1]
        kind = str(taken.value) if isinstance(taken, ast.Constant) else ast.unparse(taken)
        if isinstance(node.annotation, ast.Subscript):
            kind = kind.replace("Kept_co", ast.unparse(node.annotation.slice))
        return " | ".join(dict.fromkeys(kind.split(" | "))), default
    return _source(module, node.annotation), _default(module, node.value)


def call(found: Found, owner: str = "") -> str:
    """A function as its user calls it, or a method of `owner`: with `await`, `with` or `for` where they belong.

    A constant is shown as it is declared.
    """
    node = found.node
    if isinstance(node, ast.ClassDef):
        made = initializer(found)
        return f"{found.name}()" if made is None else _call(found.module, found.name, made)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return " ".join((ast.get_source_segment(_text(found.module), node) or "").split())
    decorators = {_called(decorator) for decorator in node.decorator_list}
    result = "" if node.returns is None else _source(found.module, node.returns)
    name = f"{owner}.{found.name}" if owner else found.name
    if "property" in decorators:
        return f"{name}: {result}"
    if "fixture" in decorators:
        return f"{name}: {result.removeprefix('Iterator[').removesuffix(']')}"
    if found.name in ("__iter__", "__aiter__"):
        return f"{'async ' if found.name == '__aiter__' else ''}for record in {owner}:\n    ..."
    if "contextmanager" in decorators or "asynccontextmanager" in decorators:
        before = "async with" if "asynccontextmanager" in decorators else "with"
        return f"{before} {_call(found.module, name, node)}:\n    ..."
    if isinstance(node, ast.AsyncFunctionDef) and result.startswith("AsyncIterator"):
        return _call(found.module, name, node, before="async for piece in ", after=":\n    ...")
    before = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    return _call(found.module, name, node, before=before, after=f" -> {result}" if result else "")


def _call(module: str, name: str, node: Function, *, before: str = "", after: str = "") -> str:
    given = list(_parameters(module, node))
    line = f"{before}{name}({', '.join(given)}){after}"
    if len(line) <= _LONGEST_LINE:
        return line
    return "\n".join([f"{before}{name}(", *(f"    {each}," for each in given), f"){after}"])


def _parameters(module: str, node: Function) -> Iterator[str]:
    """The parameters without `self` and `cls`."""
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    missing = len(positional) - len(spec.defaults)
    for index, parameter in enumerate(positional):
        if not (index == 0 and parameter.arg in ("self", "cls")):
            yield _parameter(module, parameter, spec.defaults[index - missing] if index >= missing else None)
    if spec.vararg is not None:
        yield f"*{_parameter(module, spec.vararg, None)}"
    elif spec.kwonlyargs:
        yield "*"
    for parameter, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        yield _parameter(module, parameter, default)
    if spec.kwarg is not None and not (isinstance(kind := spec.kwarg.annotation, ast.Name) and kind.id == "Never"):
        yield f"**{_parameter(module, spec.kwarg, None)}"


def _parameter(module: str, parameter: ast.arg, default: ast.expr | None) -> str:
    kind = "" if parameter.annotation is None else f": {_source(module, parameter.annotation)}"
    if default is None:
        return f"{parameter.arg}{kind}"
    return f"{parameter.arg}{kind} = {_source(module, default)}"


def _default(module: str, value: ast.expr | None) -> str:
    """The default of a field; a `field(...)` of a dataclass is what it makes."""
    if isinstance(value, ast.Call) and _called(value) == "field":
        for keyword in value.keywords:
            if keyword.arg == "default_factory":
                made = _source(module, keyword.value)
                return "{}" if made == "dict" else f"{made}()"
            if keyword.arg == "default":
                return _source(module, keyword.value)
        return ""
    return "" if value is None else _source(module, value)


def _called(node: ast.expr) -> str:
    """The last name of a decorator or a called function: `cached_property` of `functools.cached_property`."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _source(module: str, node: ast.expr) -> str:
    """The text of an expression. A private name that stands for another, as of a type, is that other."""
    if isinstance(node, ast.Name) and node.id.startswith("_"):
        for stated in tree(module).body:
            if isinstance(stated, ast.Assign) and node.id in _names(stated):
                return _source(module, stated.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return f"{_source(module, node.left)} | {_source(module, node.right)}"
    return " ".join((ast.get_source_segment(_text(module), node) or "").split())


def _names(node: ast.stmt) -> list[str]:
    """The names that a statement declares."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _text_behind(body: list[ast.stmt], node: ast.stmt) -> str:
    """The text that stands alone behind a field or a constant."""
    behind = body[body.index(node) + 1 : body.index(node) + 2]
    if behind and isinstance(behind[0], ast.Expr) and isinstance(behind[0].value, ast.Constant):
        text = behind[0].value.value
        return inspect.cleandoc(text) if isinstance(text, str) else ""
    return ""
