"""Lakes of both formats, on a local disk and on an S3 server of our own."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lake.tables.made import Lake
from tests.ports import free_port

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The endpoint of an S3 server in a process of its own, with a bucket `lake`."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _until_it_answers(endpoint, server)
        request = urllib.request.Request(f"{endpoint}/lake", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        yield endpoint
    finally:
        server.kill()
        server.wait()


def _until_it_answers(endpoint: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("moto's server did not start")


@pytest.fixture(params=["delta", "iceberg"])
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(format: str, tmp_path: Path) -> Lake:
    """A lake on a local disk."""
    return Lake((tmp_path / "lake").as_uri(), format, f"sqlite:///{tmp_path}/catalog.db")


@pytest.fixture
def s3_url(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake's URL on S3, with the environment that reaches it."""
    for name, value in (KEYS | {"AWS_ENDPOINT_URL": s3}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    return f"s3://lake/{uuid.uuid4().hex}"


@pytest.fixture
def s3_lake(format: str, tmp_path: Path, s3_url: str) -> Lake:
    """A lake on S3; its catalog stays on the disk."""
    return Lake(s3_url, format, f"sqlite:///{tmp_path}/catalog.db")


@pytest.fixture(params=["disk", "s3"])
def any_lake(request: pytest.FixtureRequest, format: str) -> Lake:
    """A lake of either format in either place."""
    return request.getfixturevalue("lake" if request.param == "disk" else "s3_lake")
