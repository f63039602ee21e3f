"""A wheel says for which platforms it is; a source archive holds all that the compiled modules are built from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
NATIVE = sorted(path.name for path in (ROOT / "src").glob("ottla/*/native/*"))
COMPILED = {"_records.abi3.so", "_parallel_sync.abi3.so"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what is packed, without what was built in place."""
    folder = tmp_path / "source"
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    for name in NEEDED:
        shutil.copy(ROOT / name, folder / name)
    return folder


def wheel(source: Path, **environment: str) -> zipfile.ZipFile:
    """Build one from a folder or a source archive."""
    folder = source.parent / "wheel"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    command.append(str(source))
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, timeout=100)
    (made,) = folder.glob("*.whl")
    return zipfile.ZipFile(made)


def native_files(names: list[str]) -> list[str]:
    return sorted(Path(name).name for name in names if "/native/" in name and name.endswith((".c", ".h")))


def test_without_a_compiler_the_wheel_is_for_every_platform(source: Path):
    with wheel(source, CC="/bin/false") as made:
        assert str(made.filename).endswith("-py3-none-any.whl")
        assert not [name for name in made.namelist() if name.endswith(".so")]
        (said,) = [name for name in made.namelist() if name.endswith("/WHEEL")]
        assert "Root-Is-Purelib: true" in made.read(said).decode()


def test_a_source_archive_makes_a_wheel_for_one_platform_with_the_compiled_modules(source: Path):
    command = "from setuptools.build_meta import build_sdist; build_sdist('..')"
    subprocess.run([sys.executable, "-c", command], cwd=source, check=True, capture_output=True, timeout=100)
    (archive,) = source.parent.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        assert native_files(packed.getnames()) == NATIVE
    with wheel(archive) as made:
        assert native_files(made.namelist()) == NATIVE
        compiled = {Path(name).name for name in made.namelist() if name.endswith(".so")}
        assert compiled == (COMPILED if shutil.which("cc") is not None else set())
        assert ("-cp311-abi3-linux" in str(made.filename)) == bool(compiled)
