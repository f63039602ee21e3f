"""An unforeseen skip fails the run; one on the list does not."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = TESTS / "conftest.py"


def run(folder: Path, body: str, *arguments: str, ci: bool = False) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    kafka\n    root\n")
    (folder / "test_it.py").write_text(f"import pytest\n{body}\n")
    (folder / "test_other.py").write_text("def test_other(): pass\n")
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "OTTLA_KAFKA_JARS")}
    environment["PYTHONPATH"] = str(TESTS.parent)
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


PARTICULAR = ("storage/test_real_disks.py", "storage/test_kafka_reads_our_files.py", "server/test_full_disk.py",
              "storage/directory/test_directory.py::test_apache_kafkas_own_lock_is_respected_and_respects_ours",
              )  # fmt: skip


@pytest.mark.parametrize("user", [0, 1000], ids=["root who may not mount", "nobody in particular"])
def test_a_machine_on_which_nothing_is_installed_skips_what_it_cannot_run_and_passes(user: int) -> None:
    names = [str(TESTS / name) for name in PARTICULAR]
    code = (
        f"import os, sys, pytest; os.geteuid = lambda: {user}\n"
        f"sys.exit(pytest.main(['-q', '-rs', '-p', 'no:cacheprovider', *{names}]))"
    )
    hidden = ("CI", "OTTLA_KAFKA_JARS", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | {"PATH": ""}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    for reason in ("needs to be root, with", "no Java compiler", "Apache Kafka's jars are not here"):
        assert reason in ran.stdout
    assert "UNFORESEEN" not in ran.stdout


def reasons(tree: ast.Module) -> Iterator[ast.expr]:
    """The reason given at each `pytest.skip`, `mark.skip` and `mark.skipif`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("skip", "skipif"):
            said = [keyword.value for keyword in node.keywords if keyword.arg in ("reason", "msg")]
            yield said[0] if said else node.args[-1]


def test_every_reason_in_the_tests_is_on_a_list() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items() if ".skip" in text or "NO_" in text}
    known = {
        target.id: node.value.value
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    foreseen: tuple[str, ...] = ()
    for node in trees[CONFTEST].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("FORESEEN_"):
            foreseen += eval(ast.unparse(node.value), dict(known))
    assert len(foreseen) > 5
    found = 0
    for path, tree in trees.items():
        for reason in reasons(tree):
            found += 1
            text = known.get(reason.id) if isinstance(reason, ast.Name) else ast.literal_eval(reason)
            assert str(text).startswith(foreseen), f"{path}:{reason.lineno}: {text!r}"
    assert found > 5
