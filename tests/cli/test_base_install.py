"""The package alone, without any extra, starts a broker and shows every command's help."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALONE = """
import importlib.abc, sys
absent = set(sys.argv.pop(1).split(","))

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from ottla.cli.main import main
sys.exit(main())
"""


def absent_modules() -> str:
    """The top-level modules of distributions that the package does not ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = {re.split(r"[^A-Za-z0-9_.-]", wanted)[0].lower() for wanted in project["dependencies"]} | {"ottla"}
    found = packages_distributions()
    own = sys.stdlib_module_names
    kept = {module for module, owners in found.items() if {owner.lower() for owner in owners} & base}
    names = sorted(name for name in found.keys() - kept - own if name.isidentifier() and not name.startswith("_"))
    assert {"cryptography", "pyarrow", "yaml", "jinja2"} <= set(names)
    return ",".join(names)


def alone(*arguments: str) -> list[str]:
    return [sys.executable, "-c", ALONE, absent_modules(), *arguments]


def test_a_broker_starts_without_any_extra(tmp_path: Path) -> None:
    command = alone("start", "--data", str(tmp_path / "data"), "--port", "0", "--http-port", "0")
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None and broker.stderr is not None
        assert " ready: " in (broker.stdout.readline() or broker.stderr.read())
    finally:
        broker.terminate()
        assert broker.wait(60) == 0


@pytest.mark.parametrize("command", ["topic", "produce", "consume", "group", "acl", "quota", "user", "token", "secure"])
def test_a_command_helps_without_any_extra(command: str) -> None:
    done = subprocess.run(alone(command, "--help"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: ottla {command}")
