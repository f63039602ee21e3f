"""A wheel says what is in it: for one platform with the compiled file, for all of them without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def wheel(folder: Path, **environment: str) -> zipfile.ZipFile:
    """Build one from a copy of the sources."""
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    for name in NEEDED:
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    subprocess.run(command, cwd=source, env=os.environ | environment, check=True, capture_output=True, timeout=100)
    (made,) = folder.glob("*.whl")
    return zipfile.ZipFile(made)


def test_without_a_compiler_the_wheel_is_for_every_platform(tmp_path: Path):
    with wheel(tmp_path, CC="/bin/false") as made:
        assert str(made.filename).endswith("-py3-none-any.whl")
        assert not [name for name in made.namelist() if name.endswith(".so")]
        (said,) = [name for name in made.namelist() if name.endswith("/WHEEL")]
        assert "Root-Is-Purelib: true" in made.read(said).decode()


def test_with_the_compiled_file_the_wheel_is_for_one_platform(tmp_path: Path):
    with wheel(tmp_path) as made:
        compiled = [name for name in made.namelist() if name.endswith(".so")]
        assert bool(compiled) == (shutil.which("cc") is not None)
        assert ("-cp311-abi3-linux" in str(made.filename)) == bool(compiled)
