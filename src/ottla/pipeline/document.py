"""A YAML file as values with their places in it, overlays over it, and variables filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

At = tuple[str, ...]
"""The keys on the way to a value, those of lists as numbers."""
_VARIABLE = re.compile(r"\$\{(\w+):([^}]*)\}")


class Spot(NamedTuple):
    """A place in a file, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Finding(NamedTuple):
    """Something that cannot work, in one sentence. A warning stops nothing."""

    spot: Spot
    sentence: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.spot}: {'warning: ' if self.warning else ''}{self.sentence}"


@dataclass(slots=True)
class Document:
    """The values of a file, and of the overlays over it, with the places of all."""

    values: dict[str, Any]
    spots: dict[At, Spot]
    findings: list[Finding] = field(default_factory=list)

    def spot(self, at: At) -> Spot:
        """The place of a value, or of what it would stand in."""
        while at and at not in self.spots:
            at = at[:-1]
        return self.spots[at]

    def find(self, at: At, sentence: str, *, warning: bool = False) -> None:
        self.findings.append(Finding(self.spot(at), sentence, warning))


def read_documents(paths: list[Path], environment: Mapping[str, str]) -> Document:
    """The first file, with the others laid over it: a map over a map key by key, null removes, all else replaces."""
    document = Document({}, {(): Spot(str(paths[0]), 1, 1)})
    for path in paths:
        over = _parsed(path)
        document.findings += over.findings
        document.values = _laid_over(document.values, over.values)
        document.spots |= over.spots
    document.values = _filled(document, document.values, (), environment, paths[0].parent)
    return document


def _parsed(path: Path) -> Document:
    document = Document({}, {(): Spot(str(path), 1, 1)})
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark
        spot = Spot(str(path), mark.line + 1, mark.column + 1) if mark else document.spots[()]
        document.findings.append(Finding(spot, f"this is no YAML: {fault.problem}"))
        return document
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        document.findings.append(Finding(document.spots[()], f"cannot be read: {fault}"))
        return document
    if not isinstance(root, yaml.MappingNode):
        document.find((), "a pipeline is a map: topics, connectors, streams, lakes, ...")
        return document
    document.values = _value(root, (), str(path), document)
    return document


def _value(node: yaml.Node, at: At, file: str, document: Document) -> Any:
    document.spots[at] = Spot(file, node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in found:
                document.spots[*at, name] = Spot(file, key.start_mark.line + 1, key.start_mark.column + 1)
                document.find((*at, name), f"{name} is here a second time")
            found[name] = _value(value, (*at, name), file, document)
            document.spots[*at, name] = Spot(file, key.start_mark.line + 1, key.start_mark.column + 1)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(value, (*at, str(index)), file, document) for index, value in enumerate(node.value)]
    return yaml.SafeLoader("").construct_object(node)


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    found = dict(below)
    for name, value in above.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _laid_over(found.get(name), value)
    return found


def _filled(document: Document, value: Any, at: At, environment: Mapping[str, str], folder: Path) -> Any:
    """Values with their variables filled in. Those of connectors are the worker's, which shows them to nobody."""
    if at[:1] == ("connectors",):
        return value
    if isinstance(value, dict):
        return {name: _filled(document, each, (*at, name), environment, folder) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(document, each, (*at, str(index)), environment, folder) for index, each in enumerate(value)]
    if not isinstance(value, str):
        return value
    for variable in _VARIABLE.finditer(value):
        text = _looked_up(document, at, variable, environment, folder)
        if text is not None:
            value = value.replace(variable[0], text)
    return value


def _looked_up(
    document: Document, at: At, variable: re.Match[str], environment: Mapping[str, str], folder: Path
) -> str | None:
    provider, name = variable.groups()
    if provider == "env":
        if name not in environment:
            document.find(at, f"{variable[0]}: the environment has no {name}")
        return environment.get(name)
    if provider == "file":
        try:
            return (folder / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as fault:
            document.find(at, f"{variable[0]}: {fault}")
            return None
    document.find(at, f"{variable[0]}: variables are ${{env:NAME}} and ${{file:PATH}}")
    return None


def walked(value: Any, at: At = ()) -> Iterator[tuple[At, Any]]:
    """Every value below, with the keys on the way."""
    yield at, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield from walked(each, (*at, name))
