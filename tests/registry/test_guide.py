"""The commands of the registry's guide do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.registry.server import RegistryThread

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "registry.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("pip install", "ottla start", "ottla registry")


def sessions(text: str) -> list[tuple[str, str]]:
    """Each `$ command` with what it is said to print."""
    plain = [body for language, body in BLOCK.findall(text) if not language]
    found = [each for body in plain for each in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE)]
    return [each for each in found if not each[0].startswith(ELSEWHERE)]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_guide_prints_what_it_says(registry: RegistryThread, tmp_path: Path) -> None:
    program = tmp_path / "ottla"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@" --url {registry.url}\n')
    program.chmod(0o755)
    text = GUIDE.read_text("utf-8").replace("localhost:8081", registry.url.removeprefix("http://"))
    commands = sessions(text)
    assert len(commands) == 9
    for command, said in commands:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout.strip()) == (0, said.strip()), done.stderr
    (program_text,) = [body for language, body in BLOCK.findall(text) if language == "python"]
    names: dict[str, object] = {}
    exec(program_text, names)
    assert bytes(names["value"])[:5] == b"\x00\x00\x00\x00\x02"  # type: ignore[call-overload]
