"""`ottla connect new-plugin`: writes a package with a source, a sink and a test of both."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

from ottla.cli.command import Command
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1"
description = "Connectors of ottla"
requires-python = ">=3.11"
dependencies = ["ottla"]

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points."ottla.connect"]
source = "{module}.source:{title}SourceConnector"
sink = "{module}.sink:{title}SinkConnector"

[tool.setuptools.packages.find]
where = ["src"]
"""
_README: Final = """\
# {name}

Two connectors for [ottla](https://pypi.org/project/ottla/): `{title}Source` reads the lines of a directory's files,
`{title}Sink` writes records into a table of SQLite. They are a beginning: put your own other sides in their place.

    pip install -e '.[test]'
    pytest
    ottla connect plugins        # where a worker runs in this environment
"""


def _new_plugin(given: Given) -> int:
    name = given.words[0]
    if not _NAME.fullmatch(name):
        raise Misuse(f"{name!r} is no name of a package: write small letters and digits, with -, such as sea-birds")
    if name in ("ottla", "starter"):
        raise Misuse(f"the name {name!r} is taken: choose another")
    target = Path(given.text("directory") or name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target} is there already: name an empty directory with --directory")
    written = _package(name)
    try:
        for path, content in written.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(content, encoding="utf-8")
    except OSError as fault:
        raise BadInput(f"{target} cannot be written: {fault}") from None
    sys.stdout.write("".join(f"{target / path}\n" for path in written))
    sys.stdout.write(f"next: cd {target} && pip install -e '.[test]' && pytest\n")
    return 0


def _package(name: str) -> dict[str, str]:
    """The files of the package by their paths."""
    module = name.replace("-", "_")
    title = "".join(part.capitalize() for part in name.split("-"))
    places = {"name": name, "module": module, "title": title}

    def copied(file: str) -> str:
        text = files("ottla.connect.starter").joinpath(file).read_text(encoding="utf-8")
        return text.replace("ottla.connect.starter", module).replace("Starter", title).replace("starter.", f"{module}.")

    return {
        "pyproject.toml": _PROJECT.format(**places),
        "README.md": _README.format(**places),
        f"src/{module}/__init__.py": f'"""Connectors: {title}Source and {title}Sink."""\n',
        f"src/{module}/source.py": copied("source.py"),
        f"src/{module}/sink.py": copied("sink.py"),
        f"tests/test_{module}.py": copied("checks.py"),
    }


VERB: Final = Command(
    "ottla connect new-plugin NAME",
    "Write a package with a source and a sink of your own.\n\nIt holds a project file with the entry points by which "
    "workers find both, and a test that drives them through restarts, crashes, rebalances and bad records.",
    _new_plugin,
    [Option("directory", "Where to write it. Default: a directory of that name.", "DIR")],
    words=(1, 1),
    has_json=False,
    connects=False,
)
