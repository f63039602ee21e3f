"""Parts of commands that need more packages than ottla alone: loaded by name at their first use.

So the program starts without them, and says in one sentence which are missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.cli.faults import Misuse

_PARTS = {
    "Avro": ("ottla.formats.row_files", "formats"),
    "Parquet": ("ottla.formats.row_files", "formats"),
    "a schema": ("ottla.formats.console", "formats"),
}


def extra(part: str) -> Any:
    """The module of a part; Misuse names the package that it lacks, and the command that installs it."""
    module, group = _PARTS[part]
    try:
        return import_module(module)
    except ModuleNotFoundError as fault:
        if fault.name is None or fault.name.startswith("ottla"):
            raise
        raise missing(part, fault.name, group) from None


def missing(part: str, package: str, group: str = "formats") -> Misuse:
    return Misuse(f"{part} needs the package {package}, which is not installed: pip install 'ottla[{group}]'")
