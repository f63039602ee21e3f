"""`ottla shims DIR`: executables with the names of Kafka's tools, with and without `.sh`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ottla.cli.command import Command, print_json, wants_json
from ottla.cli.main import KAFKA_TOOLS
from ottla.cli.options import Given

_SHIM = """#!/bin/sh
exec "{python}" -m ottla.cli.main {tool} "$@"
"""


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _write(given: Given) -> int:
    folder = Path(given.words[0])
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for tool in KAFKA_TOOLS:
        for name in (tool, f"{tool}.sh"):
            shim = folder / name
            shim.write_text(_SHIM.format(python=sys.executable, tool=tool), encoding="utf-8")
            shim.chmod(0o755)
            written.append(str(shim))
    if wants_json(given):
        print_json(written)
    else:
        sys.stdout.write(
            f"wrote {len(written)} executables; put them first with\n  export PATH={folder.resolve()}:$PATH\n"
        )
    return 0


COMMAND = Command(
    "ottla shims DIR", "Write executables with the names of Kafka's tools.", _write, words=(1, 1), connects=False
)
