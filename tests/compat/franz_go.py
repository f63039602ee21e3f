"""The program of the folder `go` on franz-go, compiled by the Go that `tools/setup.sh go` puts under .cache."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "go"
GO = SOURCE.parents[2] / ".cache" / "go" / "go" / "bin" / "go"


def go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(GO), *arguments], cwd=SOURCE, capture_output=True, text=True, check=False)


def compiled(program: Path) -> Path:
    """The program, or a skip where Go or the modules cannot be had."""
    if not GO.exists():
        pytest.skip("no Go under .cache: run `tools/setup.sh go`")
    fetched = go("mod", "download")
    if fetched.returncode != 0:
        print(fetched.stderr.strip()[-300:])
        pytest.skip("Go's modules cannot be fetched")
    built = go("build", "-buildvcs=false", "-o", str(program), ".")
    assert built.returncode == 0, built.stderr[-3000:]
    return program


def command(program: Path, bootstrap: str, name: str, brokers: int, scene: str) -> Sequence[str]:
    return [str(program), bootstrap, name, str(brokers), scene]
