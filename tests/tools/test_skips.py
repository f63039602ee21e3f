"""A skip that nobody foresaw fails the run; one on the list does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"


def run(folder: Path, body: str, *arguments: str, ci: bool = False) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    kafka\n    root\n")
    (folder / "test_it.py").write_text(f"import pytest\n{body}\n")
    (folder / "test_other.py").write_text("def test_other(): pass\n")
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "OTTLA_KAFKA_JARS")}
    if ci:
        environment["CI"] = "true"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["one process", "side by side"])
@pytest.mark.parametrize(
    "body",
    ['def test_it(): pytest.skip("no reason")', 'pytest.importorskip("no_such_package_anywhere")'],
    ids=["a test", "a module"],
)
def test_an_unforeseen_skip_fails_the_run_and_is_named(tmp_path: Path, body: str, arguments: tuple[str, ...]) -> None:
    result = run(tmp_path, body, *arguments)
    assert result.returncode == 1, result.stdout
    assert ("UNFORESEEN SKIP" in result.stdout and " passed" in result.stdout) or "skipped" in result.stdout


def test_a_foreseen_skip_lets_the_run_pass(tmp_path: Path) -> None:
    result = run(tmp_path, 'def test_it(): pytest.skip("needs to be root")', ci=True)
    assert result.returncode == 0, result.stdout


def test_missing_jars_skip_on_a_persons_machine_and_fail_on_ci(tmp_path: Path) -> None:
    body = "@pytest.mark.kafka\ndef test_it(): pass"
    assert run(tmp_path, body).returncode == 0
    assert run(tmp_path, body, ci=True).returncode == 1
