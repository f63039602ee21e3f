"""Checks the guide to Spark clusters against Spark, as far as possible without YARN and Kubernetes."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest
import yaml
from standalone import PYTHON, bare_environment, built_wheel, virtual_environment

from ottla.spark import main as submitted

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "spark-clusters.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FREELY_NAMED = ("spark.yarn.appMasterEnv.", "spark.executorEnv.", "spark.kubernetes.driverEnv.")
SETTINGS = (
    "org.apache.spark.internal.config.package$",
    "org.apache.spark.deploy.k8s.Config$",
    "org.apache.spark.deploy.yarn.config.package$",
)


def blocks(language: str) -> list[str]:
    return [body for found, body in BLOCK.findall(GUIDE.read_text("utf-8")) if found == language]


def commands(program: str) -> list[list[str]]:
    """The command lines of a program, each as its arguments."""
    lines = [shlex.split(line) for block in blocks("console") for line in block.splitlines()]
    return [line[1:] for line in lines if line and Path(line[0]).name == program]


def documents() -> list[dict[str, object]]:
    [manifest] = blocks("yaml")
    return list(yaml.safe_load_all(manifest))


def container() -> dict[str, object]:
    [job] = [each for each in documents() if each["kind"] == "CronJob"]
    [only] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]  # type: ignore[index]
    return dict(only)


def given_settings() -> dict[str, str]:
    """Every setting that a command line or the manifest gives."""
    found = []
    for line in [*commands("spark-submit"), *commands("ottla")]:
        found += [after for option, after in itertools.pairwise(line) if option == "--conf"]
    found += [each.removeprefix("--conf=") for each in container()["args"] if each.startswith("--conf=")]  # type: ignore[attr-defined]
    return dict(pair.split("=", 1) for pair in found)


def test_spark_submit_knows_the_options_of_its_command_lines() -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    said = subprocess.run([submit, "--help"], capture_output=True, text=True, timeout=60, check=False)
    known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", said.stdout + said.stderr))
    lines = commands("spark-submit")
    assert len(lines) == 3
    for line in lines:
        program = next(at for at, each in enumerate(line) if each.endswith(("ottla.spark.main)", "/main.py")))
        options = {each for each in line[:program] if each.startswith("--")}
        assert options
        assert options <= known
        assert line[program + 1 : program + 3] == ["lake", "load"]


def test_the_file_in_the_image_is_the_file_of_the_package() -> None:
    [path] = [each for line in commands("spark-submit") for each in line if each.startswith("local://")]
    assert Path(path).parts[-3:] == Path(submitted.__file__).parts[-3:]


@pytest.mark.spark
def test_spark_knows_the_settings(spark) -> None:  # type: ignore[no-untyped-def]
    jvm = spark.sparkContext._jvm
    for module in SETTINGS:
        jvm.java.lang.Class.forName(module)
    unknown = jvm.org.apache.spark.internal.config.ConfigEntry
    given = given_settings()
    assert len(given) > 8
    for name in given:
        assert name.startswith(FREELY_NAMED) or unknown.findEntry(name) is not None, name


def test_the_manifest_is_one_of_objects_that_name_each_other() -> None:
    kinds = {each["kind"]: each for each in documents()}
    assert set(kinds) == {"ServiceAccount", "Role", "RoleBinding", "Service", "CronJob"}
    assert all(each["apiVersion"] and each["metadata"]["name"] for each in kinds.values())  # type: ignore[index]
    account = kinds["ServiceAccount"]["metadata"]["name"]  # type: ignore[index]
    template = kinds["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]  # type: ignore[index]
    service, given = kinds["Service"], given_settings()
    assert template["spec"]["serviceAccountName"] == account
    assert kinds["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert service["spec"]["selector"] == template["metadata"]["labels"]  # type: ignore[index]
    assert given["spark.driver.host"] == service["metadata"]["name"]  # type: ignore[index]
    ports = {each["name"]: str(each["port"]) for each in service["spec"]["ports"]}  # type: ignore[index]
    assert ports == {"driver": given["spark.driver.port"], "blocks": given["spark.driver.blockManager.port"]}
    assert container()["image"] == given["spark.kubernetes.container.image"]


def test_the_image_is_built_on_a_python_that_the_package_takes() -> None:
    [text] = blocks("dockerfile")
    instructions = {line.split()[0] for line in text.splitlines() if line and not line.startswith(" ")}
    assert instructions == {"ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT"}
    [python] = re.findall(r"FROM python:3\.(\d+)", text)
    assert int(python) >= 11
    assert f"ARG SPARK={pyspark.__version__}\n" in text


@pytest.mark.slow
def test_a_packed_environment_runs_where_it_is_unpacked(tmp_path: Path) -> None:
    virtual_environment(tmp_path / "pack", PYTHON, built_wheel(tmp_path), shared=False)
    [packing] = commands("venv-pack")
    subprocess.run([sys.executable, "-m", "venv_pack", "-q", *packing], cwd=tmp_path, check=True, timeout=60)
    with tarfile.open(tmp_path / "env.tar.gz") as archive:
        archive.extractall(tmp_path / "node" / "env", filter="tar")
    said = subprocess.run(
        ["./env/bin/python", "-m", "ottla.spark.main"],
        cwd=tmp_path / "node",
        env=bare_environment([]),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert Path(said.stdout.strip()).is_relative_to(tmp_path / "node" / "env")
