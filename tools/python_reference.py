"""docs/reference/python.md: the Python API by module, from signatures and docstrings. `docs.py` writes the page."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import python_sources as sources
from python_sections import INTRO, SECTIONS, Form, Section
from python_sources import Found

_CLASS_NAMES = re.compile(r"(?<![\w.\"'])([A-Z]\w*[a-z]\w*)")
_LAST_WORD = re.compile(r"[A-Z][a-z]*$")
_RETURNED_ONLY = ("Delivery",)
"""Classes that users are given and never make."""
_INNER = ("ClientStory",)
"""Classes in signatures that mean nothing outside of the client."""


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
        for found in section.found() if section.form is not Form.PARTS else ():
            name = f"{section.module}.{found.name}"
            missing += [] if found.doc else [name]
            methods = sources.public_methods(found) if isinstance(found.node, ast.ClassDef) else []
            missing += [f"{name}.{method.name}" for method in methods if not method.doc]
    return missing


def unlisted() -> list[str]:
    """The classes of ottla that signatures on the page name and that the page does not describe."""
    listed = {(found.module, found.name) for section in SECTIONS for found in section.found()}
    missing = set()
    for section in SECTIONS:
        for found in section.found() if section.form is Form.ENTRIES else ():
            for name in _named(found):
                other = _ours(found.module, name)
                if other is not None and (other.module, other.name) not in listed:
                    missing.add(name)
    return sorted(missing.difference(_INNER))


def _named(found: Found) -> Iterator[str]:
    """The names of classes in the signatures and fields of a declaration."""
    texts = [] if found.name in _RETURNED_ONLY else [sources.call(found)]
    if isinstance(found.node, ast.ClassDef):
        texts += [sources.call(method) for method in sources.public_methods(found)]
        texts += [field.kind for field in sources.fields(found)] if sources.is_value(found) else []
    for text in texts:
        yield from _CLASS_NAMES.findall(text)


def _ours(module: str, name: str) -> Found | None:
    try:
        return sources.find(module, name)
    except LookupError:
        return None


def _contents() -> str:
    lines = []
    for section in SECTIONS:
        links = [f"[{found.name}](#{_anchor(section.prefix + found.name)})" for found in section.found()]
        shown = f": {', '.join(links)}" if section.form is Form.ENTRIES else ""
        lines.append(f"- [`{section.module}`](#{_anchor(section.module)}){shown}")
    return "\n".join(lines)


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return heading.lower().replace(".", "")


def _entries(section: Section) -> Iterator[str]:
    for found in section.found():
        yield f"### {section.prefix}{found.name}"
        if found.module != section.module and not _handed_on(section.module, found.name):
            yield f"In `{found.module}`."
        yield from _class(section, found) if isinstance(found.node, ast.ClassDef) else _called(found)


def _class(section: Section, found: Found) -> Iterator[str]:
    """One class with its methods."""
    if sources.is_value(found):
        yield _prose(found.doc)
        yield _fields(sources.fields(found))
    elif found.name in _RETURNED_ONLY or "Protocol" in sources.bases(found):
        yield _prose(found.doc)
    else:
        made = sources.initializer(found)
        told, _, example = found.doc.partition("\n\n    ")
        yield f"```py\n{sources.call(found)}\n```"
        yield _prose(told)
        yield _prose("" if made is None else ast.get_docstring(made) or "")
        yield _prose(f"    {example}") if example else ""
    others = sources.other_names(found)
    for method in sources.public_methods(found):
        name = "iteration" if method.name in ("__iter__", "__aiter__") else method.name
        yield f"#### {section.prefix}{found.name}.{name}"
        yield from _called(method, found.name if sources.is_class_method(method) else _variable(found.name))
        if method.name in others:
            yield f"Also called {', '.join(f'`{other}`' for other in others[method.name])}."


def _variable(name: str) -> str:
    """The name that examples give to an object of a class: `broker` for a `TestBroker`."""
    last = _LAST_WORD.search(name)
    return (last[0] if last is not None else name).lower()


def _handed_on(module: str, name: str) -> bool:
    return any(alias == name for _, _, alias in sources.handed_on(module))


def _load(section: Section) -> Iterator[str]:
    """The entries of `ottla.lake`, the options of a load behind the first."""
    from ottla.lake.options import OPTIONS

    rows = []
    for option in OPTIONS:
        kind = f"{option.kind.value}: {', '.join(option.choices)}" if option.choices else option.kind.value
        default = "" if option.default in ("", None, ()) else _code(str(option.default))
        rows.append((_code(option.name), kind, default, option.doc, option.kept.value))
    yield from _entries(replace(section, names=section.names[:1]))
    yield f"The options of `{section.names[0]}`:"
    yield _table(("option", "takes", "default", "meaning", "holds"), rows)
    yield from _entries(replace(section, names=section.names[1:]))


def _called(found: Found, owner: str = "") -> Iterator[str]:
    """A signature and its docstring. Signatures are marked `py`, examples `python`: tests run the latter."""
    yield f"```py\n{sources.call(found, owner)}\n```"
    yield _prose(found.doc)


def _fields(fields: Iterable[sources.Field]) -> str:
    rows = [(f"`{each.name}`", _code(each.kind), _code(each.default), _line(each.doc)) for each in fields]
    return _table(("name", "type", "default" if any(row[1] for row in rows) else "value", "meaning"), rows)


def _names(section: Section) -> Iterator[str]:
    """Errors, constants and functions, one in each row."""
    rows = []
    for found in section.found():
        kinds = sources.bases(found) if isinstance(found.node, ast.ClassDef) else []
        rows.append((f"`{found.name}`", ", ".join(_code(kind) for kind in kinds), _line(found.doc)))
    yield _table(("name", "is a", "meaning"), rows)


def _parts(section: Section) -> Iterator[str]:
    """Parts of messages with their fields, and the parts inside of them."""
    rows = []
    ahead = section.found()
    seen = {(found.module, found.name) for found in ahead}
    while ahead:
        found = ahead.pop(0)
        fields = sources.fields(found)
        told = ", ".join(f"`{each.name}: {each.kind}`" for each in fields)
        rows.append((f"`{found.name}`", _code(found.module), told))
        inside = [_ours(found.module, name) for each in fields for name in _CLASS_NAMES.findall(each.kind)]
        new = [each for each in inside if each is not None and (each.module, each.name) not in seen]
        seen |= {(each.module, each.name) for each in new}
        ahead = new + ahead
    yield _table(("part", "module", "fields"), rows)


def _codes(section: Section) -> Iterator[str]:
    """The members of `ErrorCode`: number, sentence, and whether another attempt may help."""
    for found in section.found():
        yield _prose(found.doc)
        rows = []
        for member in (field for field in sources.fields(found) if not field.kind):
            number, sentence, *retriable = ast.literal_eval(member.default)
            rows.append((f"`{member.name}`", str(number), "yes" if retriable else "", sentence))
        yield _table(("code", "number", "retriable", "meaning"), rows)


_FORMS = {Form.ENTRIES: _entries, Form.NAMES: _names, Form.PARTS: _parts, Form.CODES: _codes, Form.LOAD: _load}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table without the columns that would be empty."""
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]
    lines = ["| " + " | ".join(head[index] for index in kept) + " |", "|" + "---|" * len(kept)]
    lines += ["| " + " | ".join(row[index].replace("|", "\\|") for index in kept) + " |" for row in rows]
    return "\n".join(lines) if rows else ""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _line(doc: str) -> str:
    return " ".join(doc.split())


def _prose(doc: str) -> str:
    """A docstring as Markdown: lines that are indented by four are an example."""
    written: list[str] = []
    example: list[str] = []
    for line in [*doc.splitlines(), "end"]:
        if line.startswith("    ") or (example and not line):
            example.append(line)
            continue
        if example:
            written += ["```python", textwrap.dedent("\n".join(example)).strip("\n"), "```", ""]
            example = []
        written.append(line)
    return "\n".join(written[:-1]).strip()
