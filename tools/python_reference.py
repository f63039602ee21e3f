"""docs/reference/python.md: the Python API by module, from signatures and docstrings. `docs.py` writes the page.

griffe parses the sources and never imports them: reading needs neither Spark nor pytest, and gives the same text
everywhere. The names and their order are in python_sections.py.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import griffe
from griffe import Alias, Attribute, Class, Expr, ExprCall, ExprSubscript, ExprTuple, Function, Module, ParameterKind
from python_sections import INTRO, SECTIONS, Form, Section

SOURCES = Path(__file__).resolve().parent.parent / "src"
Found = Class | Function | Attribute
_CLASS_NAMES = re.compile(r"(?<![\w.\"'])([A-Z]\w*[a-z]\w*)")
_RETURNED_ONLY = ("Delivery",)
"""Classes that users are given and never make."""
_INNER = ("ClientStory", "Publication")
"""Classes in signatures that mean nothing to users."""
_LONGEST_LINE = 100


def page(made: str) -> str:
    """The whole page; `made` says where it comes from."""
    parts = ["# Python API", made, INTRO, _contents()]
    for section in SECTIONS:
        parts += [f"## {section.module}", section.intro, *_FORMS[section.form](section)]
    return "\n\n".join(part for part in parts if part) + "\n"


def undocumented() -> list[str]:
    """The public names on the page without a docstring. Parts of messages have none, their names are Kafka's."""
    missing = []
    for section in SECTIONS:
        for found in declared(section) if section.form is not Form.PARTS else ():
            name = f"{section.module}.{found.name}"
            missing += [] if found.docstring else [name]
            missing += [f"{name}.{method.name}" for method in _methods(found) if not method.docstring]
    return missing


def unlisted() -> list[str]:
    """The classes of ottla that signatures on the page name and that the page does not describe."""
    listed = {found.path for section in SECTIONS for found in declared(section)}
    missing = set()
    for section in (section for section in SECTIONS if section.form is Form.ENTRIES):
        for found in declared(section):
            texts = [_call(method) for method in _methods(found)]
            texts += [] if found.name in _RETURNED_ONLY else [_call(found)]
            texts += [kind for _, kind, *_ in _fields(found)] if _is_value(found) else []
            for name in {name for text in texts for name in _CLASS_NAMES.findall(text)}:
                other = _or_none(found.module.path, name)
                missing |= {name} if other is not None and other.path not in listed else set()
    return sorted(missing.difference(_INNER))


def declared(section: Section) -> list[Found]:
    """The declarations of a section's names."""
    places = [name.rpartition(":") for name in section.names.split()]
    return [find(module or section.module, name) for module, _, name in places]


def find(module: str, name: str) -> Found:
    """A public name of a module, followed through the imports that hand it on."""
    found = parsed(module).members.get(name)
    if isinstance(found, Alias) and found.target_path.startswith("ottla."):
        return find(*found.target_path.rsplit(".", 1))  # type: ignore[arg-type]
    if not isinstance(found, Class | Function | Attribute):
        raise LookupError(f"{module} has no {name}")
    return found


@cache
def parsed(module: str) -> Module:
    """A module's source; nothing is run."""
    place = SOURCES.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return griffe.visit(module, path, path.read_text(encoding="utf-8"))


def public(package: str) -> set[str]:
    """The names that a package has for its users: those of `__all__`, or what it hands on; of a plugin its fixtures."""
    module = parsed(package)
    fixtures = {name for name, each in module.functions.items() if "fixture" in _decorators(each)}
    ours = {name for name, place in module.imports.items() if place.startswith("ottla.")}
    return fixtures or {
        str(name) for name in module.exports or ours if not (SOURCES / package.replace(".", "/") / str(name)).is_dir()
    }


def _or_none(module: str, name: str) -> Found | None:
    try:
        return find(module, name)
    except LookupError:
        return None


def _methods(found: Found) -> list[Function | Attribute]:
    """The methods and properties that users call, in the order of the source; then those that both faces have."""
    if not isinstance(found, Class):
        return []
    methods: list[Function | Attribute] = []
    for each in found.members.values():
        if isinstance(each, Function) or (isinstance(each, Attribute) and "property" in each.labels):
            methods.append(each)
        elif isinstance(each, Attribute) and isinstance(each.value, ExprCall) and str(each.value.function) == "on_plan":
            alias, _, story = str(each.value.arguments[0]).rpartition(".")
            methods.append(_on_plan(each.name, find(parsed(found.module.path).imports[alias], story)))
    for base in (str(base) for base in found.bases if str(base).endswith("Calls")):
        methods += [_on_face(found, each) for each in _methods(find(found.module.path, base))]
    return [each for each in methods if not each.name.startswith("_") or each.name in ("__iter__", "__aiter__")]


def _on_plan(name: str, story: Found) -> Function:
    """The method that `name = on_plan(stories.story)` declares: the story without the cluster's plan."""
    assert isinstance(story, Function)
    parameters = griffe.Parameters(*[each for each in story.parameters if each is not story.parameters[0]])
    made = Function(name, parameters=parameters, returns=story.returns, docstring=story.docstring)
    made.parent, made.labels = story.module, story.labels
    return made


def _on_face(face: Class, method: Function | Attribute) -> Function | Attribute:
    """A method as a face has it: awaited on the asyncio one, whose examples are those of the class."""
    if not isinstance(method, Function):
        return method
    doc, waits = method.docstring.value if method.docstring else "", ".aio." in face.module.path
    made = Function(method.name, parameters=method.parameters, returns=method.returns, decorators=method.decorators)
    made.docstring = griffe.Docstring(doc.partition("\n\n    ")[0] if waits else doc) if doc else None
    made.parent, made.labels = method.parent, method.labels if waits else method.labels - {"async"}
    return made


def _decorators(found: Found) -> set[str]:
    """The last names of decorators: `cached_property` of `functools.cached_property`."""
    return {str(each.value).partition("(")[0].rpartition(".")[2] for each in getattr(found, "decorators", ())}


def _is_value(found: Found) -> bool:
    """True for dataclasses, named tuples and enumerations, whose fields say everything."""
    if not isinstance(found, Class):
        return False
    bases = {str(base) for base in found.bases}
    return bool(
        {"dataclass", "struct", "message"} & _decorators(found)
        or {"NamedTuple", "TypedDict", "IntEnum", "Enum"} & bases
    )


def _fields(found: Found) -> list[tuple[str, str, str, str]]:
    """The public fields or members of a class of values: name, type, default, meaning."""
    return [
        (name, *_kind_and_default(each), each.docstring.value if each.docstring else "")
        for name, each in found.members.items()
        if isinstance(each, Attribute) and not name.startswith("_") and "property" not in each.labels
        if "instance-attribute" not in each.labels or "class-attribute" in each.labels or each.annotation
    ]


def _kind_and_default(field: Attribute) -> tuple[str, str]:
    """The type and default of a field; of a setting what may be given for it (`Setting` of ottla.client.settings)."""
    kind, value = field.annotation, field.value
    if not isinstance(value, ExprCall):
        return _text(field, kind), _text(field, value)
    called = str(value.function).rpartition(".")[2]
    if called == "field":
        given = dict(re.findall(r"(default\w*)=([^,()]+(?:\([^)]*\))?)", str(value)))
        made = given.get("default_factory", "")
        return _text(field, kind), ("{}" if made == "dict" else f"{made}()") if made else given.get("default", "")
    if called != str(kind.left if isinstance(kind, ExprSubscript) else kind):
        return _text(field, kind), _text(field, value)
    base = find(field.module.path, called).bases[0]  # type: ignore[union-attr]
    assert isinstance(base, ExprSubscript)
    taken = str(base.slice.elements[1]).strip("'\"") if isinstance(base.slice, ExprTuple) else f"str | {base.slice}"
    if isinstance(kind, ExprSubscript):
        taken = taken.replace("Kept_co", str(kind.slice))
    return " | ".join(dict.fromkeys(taken.split(" | "))), _text(field, value.arguments[0])


def _text(found: Found, expression: str | Expr | None) -> str:
    """An expression as it is written. A private name that stands for another, as of a type, is that other."""

    def public(match: re.Match[str]) -> str:
        stated = parsed(found.module.path).members.get(match[0])
        return _text(stated, stated.value) if isinstance(stated, Attribute) and stated.value else match[0]

    text = "" if expression is None else str(expression)
    quoted = re.sub(r"""("(?:[^"\\]|\\.)*")|'([^'"\\]*)'""", lambda each: each[1] or f'"{each[2]}"', text)
    spaced = re.sub(r"(?<![\w.:])(?:\d{5,}|\d000)\b", lambda digits: f"{int(digits[0]):_}", quoted)
    return re.sub(r"(?<![\w.'\"])_[A-Za-z]\w*", public, spaced)


def _call(found: Found, owner: str = "") -> str:
    """A function as its user calls it, or a method of `owner`: with `await`, `with` or `for` where they belong."""
    name = f"{owner}.{found.name}" if owner else found.name
    if isinstance(found, Class):
        made = found.members.get("__init__")
        return _line(name, made) if isinstance(made, Function) else f"{name}()"
    decorators = _decorators(found)
    if isinstance(found, Attribute):
        kind = _text(found, found.annotation)
        return f"{name}: {kind}" if "property" in found.labels else f"{name} = {_text(found, found.value)}"
    result = _text(found, found.returns)
    if "fixture" in decorators:
        return f"{name}: {result.removeprefix('Iterator[').removesuffix(']')}"
    if found.name in ("__iter__", "__aiter__"):
        return f"{'async ' if found.name == '__aiter__' else ''}for record in {owner}:\n    ..."
    if "contextmanager" in decorators or "asynccontextmanager" in decorators:
        before = "async with " if "asynccontextmanager" in decorators else "with "
        return _line(name, found, before, ":\n    ...")
    if "async" in found.labels and result.startswith("AsyncIterator"):
        return _line(name, found, "async for piece in ", ":\n    ...")
    return _line(name, found, "await " if "async" in found.labels else "", f" -> {result}" if result else "")


def _line(name: str, function: Function, before: str = "", after: str = "") -> str:
    given = list(_parameters(function))
    line = f"{before}{name}({', '.join(given)}){after}"
    return line if len(line) <= _LONGEST_LINE else f"{before}{name}(\n    " + ",\n    ".join(given) + f",\n){after}"


def _parameters(function: Function) -> Iterator[str]:
    """The parameters without `self` and `cls`, and without those that nobody may give."""
    stars = {ParameterKind.var_positional: "*", ParameterKind.var_keyword: "**"}
    bare = any(each.kind is ParameterKind.var_positional for each in function.parameters)
    for at, each in enumerate(function.parameters):
        kind = _text(function, each.annotation)
        if (at == 0 and each.name in ("self", "cls")) or kind == "Never":
            continue
        if each.kind is ParameterKind.keyword_only and not bare:
            bare = True
            yield "*"
        default = "" if each.kind in stars or each.default is None else f" = {_text(function, each.default)}"
        yield f"{stars.get(each.kind, '')}{each.name}{f': {kind}' if kind else ''}{default}"


def _contents() -> str:
    lines = []
    for section in SECTIONS:
        links = [f"[{found.name}](#{_anchor(section.prefix + found.name)})" for found in declared(section)]
        shown = f": {', '.join(links)}" if section.form is Form.ENTRIES else ""
        lines.append(f"- [`{section.module}`](#{_anchor(section.module)}){shown}")
    return "\n".join(lines)


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return heading.lower().replace(".", "")


def _entries(section: Section) -> Iterator[str]:
    for found in declared(section):
        yield f"### {section.prefix}{found.name}"
        if found.module.path != section.module and found.name not in parsed(section.module).imports:
            yield f"In `{found.module.path}`."
        yield from _class(section, found) if isinstance(found, Class) else _called(found)


def _class(section: Section, found: Class) -> Iterator[str]:
    """One class with its methods."""
    if _is_value(found):
        yield _prose(_doc(found))
        rows = [(f"`{name}`", _code(kind), _code(value), _joined(doc)) for name, kind, value, doc in _fields(found)]
        yield _table(("name", "type", "default" if any(row[1] for row in rows) else "value", "meaning"), rows)
    elif found.name in _RETURNED_ONLY or "Protocol" in {str(base) for base in found.bases}:
        yield _prose(_doc(found))
    else:
        told, _, example = _doc(found).partition("\n\n    ")
        made = found.members.get("__init__")
        yield f"```py\n{_call(found)}\n```"
        yield _prose(told)
        yield _prose(_doc(made)) if isinstance(made, Function) else ""
        yield _prose(f"    {example}") if example else ""
    others = _other_names(found)
    for method in _methods(found):
        name = "iteration" if method.name in ("__iter__", "__aiter__") else method.name
        yield f"#### {section.prefix}{found.name}.{name}"
        yield from _called(method, found.name if "classmethod" in _decorators(method) else _variable(found.name))
        if method.name in others:
            yield f"Also called {', '.join(f'`{other}`' for other in others[method.name])}."


def _other_names(found: Class) -> dict[str, list[str]]:
    """The further names of a class's methods, as `send_offsets = send_offsets_to_transaction` gives them."""
    names: dict[str, list[str]] = {}
    for base in (str(base) for base in found.bases if str(base).endswith("Calls")):
        names |= _other_names(find(found.module.path, base))  # type: ignore[arg-type]
    for name, each in found.members.items():
        if isinstance(each, Attribute) and isinstance(each.value, griffe.ExprName) and not each.annotation:
            names.setdefault(str(each.value), []).append(name)
    return names


def _variable(name: str) -> str:
    """The name that examples give to an object of a class: `broker` for a `TestBroker`."""
    last = re.search(r"[A-Z][a-z]*$", name)
    return (last[0] if last is not None else name).lower()


def _called(found: Function | Attribute, owner: str = "") -> Iterator[str]:
    """A signature and its docstring. Signatures are marked `py`, examples `python`: tests run the latter."""
    yield f"```py\n{_call(found, owner)}\n```"
    yield _prose(_doc(found))


def _names(section: Section) -> Iterator[str]:
    """Errors, constants and functions, one in each row."""
    rows = []
    for found in declared(section):
        kinds = [str(base) for base in found.bases] if isinstance(found, Class) else []
        rows.append((f"`{found.name}`", ", ".join(map(_code, kinds)), _joined(_doc(found))))
    yield _table(("name", "is a", "meaning"), rows)


def _parts(section: Section) -> Iterator[str]:
    """Parts of messages with their fields, and the parts inside of them."""
    rows = []
    ahead = declared(section)
    seen = {found.path for found in ahead}
    while ahead:
        found = ahead.pop(0)
        fields = _fields(found)
        told = ", ".join(f"`{name}: {kind}`" for name, kind, *_ in fields)
        rows.append((f"`{found.name}`", _code(found.module.path), told))
        inside = [_or_none(found.module.path, name) for _, kind, *_ in fields for name in _CLASS_NAMES.findall(kind)]
        new = {each.path: each for each in inside if isinstance(each, Class) and each.path not in seen}
        seen |= {*new}
        ahead = [*new.values(), *ahead]
    yield _table(("part", "module", "fields"), rows)


def _codes(section: Section) -> Iterator[str]:
    """The members of `ErrorCode`: number, sentence, and whether another attempt may help."""
    for found in declared(section):
        yield _prose(_doc(found))
        rows = []
        for name, kind, value, _ in _fields(found):
            if not kind:
                number, sentence, *retriable = ast.literal_eval(value)
                rows.append((f"`{name}`", str(number), "yes" if retriable else "", sentence))
        yield _table(("code", "number", "retriable", "meaning"), rows)


_FORMS: dict[Form, Callable[[Section], Iterator[str]]] = {
    Form.ENTRIES: _entries, Form.NAMES: _names, Form.PARTS: _parts, Form.CODES: _codes
}  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table without the columns that would be empty."""
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]
    lines = ["| " + " | ".join(head[index] for index in kept) + " |", "|" + "---|" * len(kept)]
    lines += ["| " + " | ".join(row[index].replace("|", "\\|") for index in kept) + " |" for row in rows]
    return "\n".join(lines) if rows else ""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _doc(found: Found) -> str:
    return found.docstring.value if found.docstring else ""


def _joined(doc: str) -> str:
    return " ".join(doc.split())


def _prose(doc: str) -> str:
    """A docstring as Markdown: lines that are indented by four are an example."""
    return re.sub(
        r"(?:^ {4}.*\n*)+",
        lambda example: f"```python\n{textwrap.dedent(example[0]).strip(chr(10))}\n```\n\n",
        doc,
        flags=re.MULTILINE,
    ).strip()
