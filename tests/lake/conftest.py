"""Shared by the lake's tests: the pipeline's fixtures (tests/spark_rig.py), and stores to load into."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from store_rigs import BUCKET, AzuriteServer, MiniHdfs, MotoServer, azurite, hdfs_jars
from tests.conftest import NO_AZURITE, NO_HDFS
from tests.in_memory import tmp_path
from tests.lake.driven_rounds import Rounds
from tests.spark_rig import bootstrap, eventually, spark, spark_session, topics

from ottla import lake

__all__ = ["bootstrap", "eventually", "load", "spark", "spark_session", "tmp_path", "topics"]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    """An S3 server with the bucket `lake`."""
    server = MotoServer(tmp_path_factory.mktemp("moto"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteServer]:
    """An Azure Blob Storage with the container `lake`."""
    program = azurite()
    if program is None:
        pytest.skip(NO_AZURITE)
    server = AzuriteServer(program, tmp_path_factory.mktemp("azurite"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def mini_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHdfs]:
    """An HDFS on this machine."""
    libs = hdfs_jars()
    if libs is None:
        pytest.skip(NO_HDFS)
    cluster = MiniHdfs(libs, tmp_path_factory.mktemp("hdfs"))
    yield cluster
    cluster.stop()


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases run out after four seconds; on a busy machine a renewal may take almost as long."""
    monkeypatch.setenv("OTTLA_LAKE_LEASE_SECONDS", "4")


@pytest.fixture
def s3_url(moto: MotoServer, monkeypatch: pytest.MonkeyPatch, short_lease: None) -> str:
    """The URL of a new lake on S3; the environment names the endpoint."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def az_url(azure: AzuriteServer, monkeypatch: pytest.MonkeyPatch, short_lease: None) -> str:
    """The URL of a new lake on Azure; the environment names the endpoint."""
    for name, value in azure.environment().items():
        monkeypatch.setenv(name, value)
    return f"az://{BUCKET}/{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def hdfs_url(mini_hdfs: MiniHdfs, monkeypatch: pytest.MonkeyPatch, short_lease: None) -> str:
    """The URL of a new lake on HDFS."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    return f"{mini_hdfs.url}/lakes/{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def memory_lake(tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    """`memory_lake("delta", key="id")` is a new lake of that format, loaded from memory."""
    numbers = itertools.count()

    def make(form: str, **options):  # type: ignore[no-untyped-def]
        place = tmp_path / f"lake-{next(numbers)}"
        place.mkdir()
        if form == "iceberg":
            options["catalog"] = f"sqlite:///{place}/catalog.db"
        return Rounds(place, {"format": form, **options}, monkeypatch)

    return make


@pytest.fixture
def engine() -> str:
    """The engine of `load`. A module whose tests run on both has a fixture of this name with two parameters."""
    return "local"


@pytest.fixture
def load(engine, request, bootstrap, tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    """`load("topic", json=True)` loads into tmp_path / "lake"; `load.told` is its output, `load.place` the lake."""
    told: list[str] = []
    spark = request.getfixturevalue("spark") if engine == "spark" else None

    def run(*names, to=tmp_path / "lake", **options):  # type: ignore[no-untyped-def]
        loaded = lake.load(names, to=to, bootstrap=bootstrap, on=engine, spark=spark, tell=told.append, **options)
        assert loaded.adds_up
        return loaded

    run.told = told  # type: ignore[attr-defined]
    run.place = tmp_path / "lake"  # type: ignore[attr-defined]
    return run
