"""The start of Spark's Java process: Java is looked for first, and its lines are shown only where asked for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.session import session

START = "from ottla.spark.launch import launch, told\nlaunch(quiet={quiet})\nprint('started', len(told()))"


def ran(program, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def java(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


def test_without_java_one_sentence_names_the_package_to_install():
    done = ran(START.format(quiet=True), PATH="/nowhere")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert "SparkRefused: Spark needs a Java runtime of version 17 or 21, and there is none: install one: " in last
    assert "apt install openjdk-17-jre-headless" in last


def test_a_java_that_sparks_own_file_names_is_left_to_spark(tmp_path):
    (tmp_path / "spark-env.sh").write_text(f"export JAVA_HOME={java(tmp_path, 'echo from the file >&2; exit 1')}\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "dirname", "env", "basename", "cat", "ls", "grep", "uname", "rm"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    done = ran(START.format(quiet=True), PATH=str(tools), SPARK_CONF_DIR=str(tmp_path))
    assert "SparkRefused: Spark did not start: from the file" in done.stderr.splitlines()[-1]
    (tmp_path / "spark-env.sh").write_text("\n")
    done = ran(START.format(quiet=True), PATH=str(tools), SPARK_CONF_DIR=str(tmp_path))
    assert "SparkRefused: Spark needs a Java runtime" in done.stderr.splitlines()[-1]


def test_a_java_home_without_java_is_named(tmp_path):
    done = ran(START.format(quiet=True), JAVA_HOME=str(tmp_path))
    assert f"JAVA_HOME is {tmp_path}, where there is no bin/java" in done.stderr.splitlines()[-1]


def test_a_java_that_is_too_old_is_told_in_a_sentence(tmp_path):
    words = "Error: ... UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a more recent"
    done = ran(START.format(quiet=True), JAVA_HOME=str(java(tmp_path, f"echo '{words}' >&2; exit 1")))
    assert "SparkRefused: Spark needs Java 17 or 21, and this Java is older: install one" in done.stderr
    assert "Error: ..." not in done.stderr


def test_the_last_lines_of_a_start_that_failed_are_in_the_error(tmp_path):
    done = ran(
        START.format(quiet=True), JAVA_HOME=str(java(tmp_path, "echo 'There is insufficient memory' >&2; exit 1"))
    )
    assert "SparkRefused: Spark did not start: There is insufficient memory" in done.stderr.splitlines()[-1]


@pytest.mark.spark
@pytest.mark.slow
def test_the_lines_of_a_start_are_kept_and_shown_only_where_asked_for():
    quiet, loud = (ran(START.format(quiet=quiet)) for quiet in (True, False))
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "started 0\n", "")
    assert loud.returncode == 0 and loud.stdout == "started 0\n" and loud.stderr


@pytest.mark.parametrize(
    ("environment", "python"),
    [({}, sys.executable), ({"PYSPARK_PYTHON": "/own"}, "/own"), ({"PYSPARK_GATEWAY_PORT": "1"}, "None")],
)
def test_the_import_names_this_python_for_workers_where_nobody_has(environment, python):
    done = ran("import os, ottla.spark; print(os.environ.get('PYSPARK_PYTHON'))", **environment)
    assert done.stdout.strip() == python


@pytest.mark.parametrize(
    ("name", "hint"),
    [("aplication", "did you mean application?"), ("spark_ui_enabled", "did you mean spark__ui__enabled?"), ("x", "x")],
)
def test_a_session_refuses_options_that_do_not_exist(name, hint):
    with pytest.raises(TypeError) as refused:
        session(**{name: "y"})
    assert hint in str(refused.value) and "written as spark__ui__enabled" in str(refused.value)
