"""A command's Spark session comes from options, files, spark-submit or the active session."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.spark import main as submitted
from ottla.spark.launch import SparkRefused
from ottla.spark.submit import SparkSettings, add_spark_arguments, open_session, spark_settings

JOBS = Path(__file__).with_name("submit_jobs.py")
SPARK_HOME = Path(pyspark.__file__).parent


def parsed(*arguments: str) -> SparkSettings:
    parser = argparse.ArgumentParser()
    add_spark_arguments(parser)
    return spark_settings(parser.parse_args(arguments))


def test_the_options_become_settings() -> None:
    arguments = ["--master", "yarn", "--conf", "a.b=c=d", "--conf", "e=", "--properties-file", "f", "--name", "n"]
    assert parsed(*arguments) == SparkSettings("yarn", ("a.b=c=d", "e="), "f", "n")
    assert parsed() == SparkSettings()


@pytest.mark.parametrize("pair", ["spark.ui.enabled", "=true"])
def test_a_setting_without_name_or_value_is_refused(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--conf", pair)
    assert "not KEY=VALUE" in capsys.readouterr().err


@pytest.mark.spark
def test_an_active_session_is_used_and_not_owned(spark) -> None:  # type: ignore[no-untyped-def]
    assert open_session(SparkSettings()) == (spark, False)
    assert open_session(SparkSettings(name="other")) == (spark, False)


@pytest.mark.spark
@pytest.mark.parametrize("option", [("--master", "yarn"), ("--conf", "a=b"), ("--properties-file", "f")])
def test_settings_for_a_session_that_is_there_are_refused(spark, option) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SparkRefused, match="set up already"):
        open_session(parsed(*option))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark.test.sasl.line", "spark.test.credential", "spark.test.password"])
def test_spark_shows_no_setting_that_sounds_like_a_secret(spark, name) -> None:  # type: ignore[no-untyped-def]
    spark.conf.set(name, "sesame")
    try:
        shown = {row.key: row.value for row in spark.sql("SET").collect()}
    finally:
        spark.conf.unset(name)
    assert name in shown
    assert "sesame" not in shown[name]


def opened(*arguments: str, **environment: str) -> dict[str, object]:
    result = subprocess.run(
        [sys.executable, str(JOBS), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found: dict[str, object] = json.loads(result.stdout)
    return found


@pytest.mark.spark
@pytest.mark.slow
def test_options_go_before_the_properties_file_and_that_before_our_own(tmp_path: Path) -> None:
    file = tmp_path / "spark.properties"
    file.write_text("spark.sql.shuffle.partitions 3\nspark.driver.memory=600m\nspark.master=local[7]\n")
    seen = opened("--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=5", "--properties-file", str(file))
    assert seen == {
        "spark.master": "local[1]",
        "spark.app.name": "the tool",
        "spark.sql.shuffle.partitions": "5",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "600m",
        "owned": True,
        "the same again": True,
        "arguments left": None,
    }


@pytest.mark.spark
@pytest.mark.slow
def test_without_options_the_defaults_of_sparks_own_folder_count(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[2]\nspark.ui.enabled true\nspark.ui.port 0\n")
    bar = "spark.ui.showConsoleProgress"
    given = ("--name", "mine", "--conf", f"{bar}=true")
    seen = opened(*given, SPARK_CONF_DIR=str(tmp_path), PYSPARK_SUBMIT_ARGS="pyspark-shell")
    assert seen[bar] == "true"
    assert (seen["spark.master"], seen["spark.ui.enabled"], seen["spark.app.name"]) == ("local[2]", "true", "mine")
    assert seen["arguments left"] == "pyspark-shell"


def test_a_properties_file_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    command = [sys.executable, str(JOBS), "--properties-file", str(tmp_path / "none")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith(f"--properties-file {tmp_path / 'none'}: there is no such file")


@pytest.mark.spark
@pytest.mark.slow
def test_spark_submit_runs_a_command_in_its_own_session(bootstrap, topics, tmp_path) -> None:  # type: ignore[no-untyped-def]
    topic = topics.new(2)
    topics.count(topic, 0, 30)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", "--name", "submitted"]
    command += ["--conf", "spark.log.level=WARN", str(submitted.__file__)]
    result = subprocess.run(
        [*command, "lake", "load", topic, "--to", str(tmp_path / "lake"), "-b", bootstrap],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert "adds up" in result.stdout
    assert list((tmp_path / "lake").rglob("*.parquet"))


def test_the_file_for_spark_submit_tells_where_it_is() -> None:
    command = [sys.executable, "-m", "ottla.spark.main"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == str(Path(submitted.__file__).resolve())


def test_the_folder_of_the_file_leaves_the_path() -> None:
    own = str(Path(submitted.__file__).parent)
    assert submitted.without_own_folder([own, f"{own}/", "", "/else"]) == ["", "/else"]
