"""`tools/sanitize.py` fails where the compiled part reads what it was not given, and passes where it does not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CUT_OFF = "tests/records/test_twins.py::test_both_refuse_records_cut_off_at_any_byte_alike"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the compiled part is built from."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def sanitized(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/sanitize.py", "--source", str(project), CUT_OFF]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if "left out" in done.stdout:
        pytest.skip("no C compiler with sanitizers")
    return done


def test_a_read_beyond_the_bytes_is_found_and_named(project: Path):
    header = project / "src/ottla/records/native/varint.h"
    sound = header.read_text()
    planted = sound.replace("next >= end", "next > end")
    assert planted != sound
    header.write_text(planted)
    done = sanitized(project)
    assert done.returncode
    assert "heap-buffer-overflow" in done.stderr
    assert "read_varint32" in done.stderr


def test_sound_code_passes(project: Path):
    done = sanitized(project)
    assert done.returncode == 0, done.stdout + done.stderr
