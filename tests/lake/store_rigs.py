"""Stores for tests: moto's S3, Azurite and an HDFS as processes of their own, and a process that uses a store."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from email.utils import formatdate
from pathlib import Path
from typing import Any

from tests.ports import free_port

from ottla.stores import FinishedFile, Store

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUCKET = "lake"
HDFS_PROOF = "hadoop-client-minicluster-3.5.0.jar"
START_SECONDS = 300


class MotoServer:
    """An S3 on a port of this machine, with one bucket."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        with open(folder / "moto.log", "wb") as log:
            command = [sys.executable, str(HERE / "moto_server.py"), "-H", "127.0.0.1", "-p", str(self.port)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        _wait_for_port(self.port, self.process)
        self.client().create_bucket(Bucket=BUCKET)

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """Environment variables by which a client finds the server, or a proxy in front of it at `endpoint`."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(self) -> Any:
        """A boto3 client, as a second opinion on the bucket's content."""
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
        )

    def open_uploads(self, prefix: str) -> list[str]:
        """Keys of the multipart uploads that were neither completed nor aborted."""
        found = self.client().list_multipart_uploads(Bucket=BUCKET, Prefix=prefix)
        return [upload["Key"] for upload in found.get("Uploads", [])]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class AzuriteServer:
    """An Azure Blob Storage on a port of this machine, with one container."""

    ACCOUNT = "devstoreaccount1"
    KEY = base64.b64encode(b"a key that only this server knows").decode()

    def __init__(self, program: Path, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/{self.ACCOUNT}"
        with open(folder / "azurite.log", "wb") as log:
            command = [str(program), "--inMemoryPersistence", "--blobPort", str(port), "--silent", "--disableTelemetry"]
            self.process = subprocess.Popen(
                [*command, "--skipApiVersionCheck"], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "AZURITE_ACCOUNTS": f"{self.ACCOUNT}:{self.KEY}"},
            )  # fmt: skip
        _wait_for_port(port, self.process)
        self._create_container()

    def environment(self) -> dict[str, str]:
        """Environment variables by which a client finds the server."""
        return {
            "AZURE_STORAGE_ENDPOINT": self.url,
            "AZURE_STORAGE_ACCOUNT_NAME": self.ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self.KEY,
        }

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _create_container(self) -> None:
        """Send a signed request (Microsoft's "Authorize with Shared Key"): obstore cannot create containers."""
        named = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        signed = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in named.items())
        signed += f"/{self.ACCOUNT}/{self.ACCOUNT}/{BUCKET}\nrestype:container"
        signature = base64.b64encode(hmac.digest(base64.b64decode(self.KEY), signed.encode(), hashlib.sha256)).decode()
        request = urllib.request.Request(
            f"{self.url}/{BUCKET}?restype=container",
            method="PUT",
            headers={**named, "Authorization": f"SharedKey {self.ACCOUNT}:{signature}"},
        )
        urllib.request.urlopen(request, timeout=START_SECONDS).close()


def azurite() -> Path | None:
    """The program, if npm has installed it and there is a Node."""
    program = ROOT / ".cache" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    return program if program.exists() and shutil.which("node") else None


class MiniHdfs:
    """A name node and a data node in one Java process."""

    def __init__(self, libs: Path, folder: Path) -> None:
        quick = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = ["java", *quick, "-cp", f"{libs}/*", str(HERE / "MiniHdfs.java"), str(folder / "data")]
        with open(folder / "hdfs.log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words[:1] == [b"port"], (folder / "hdfs.log").read_text()[-2000:]
        self.port = int(words[1])

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def hdfs_jars() -> Path | None:
    for folder in (os.environ.get("OTTLA_HDFS_JARS"), ROOT / ".cache" / "hdfs" / "libs"):
        if folder and shutil.which("java") and (Path(folder) / HDFS_PROOF).exists():
            return Path(folder)
    return None


class StoreProcess:
    """Another process with its own store, which takes commands as lines; see store_process.py."""

    def __init__(self, url: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "store_process.py"), url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
        )  # fmt: skip
        assert self.answer() == "open"

    def send(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, *words: str) -> str:
        self.send(*words)
        return self.answer()

    def stand_still(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "the server ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.05)


def written(store: Store, name: str, body: bytes) -> FinishedFile:
    """A finished output under a temporary name, and the move that reveals it as `name`."""
    temporary = f"_ottla/tmp/{os.urandom(4).hex()}"
    output = store.open_output(temporary)
    output.sink.write(body)
    return FinishedFile(temporary, name, output.finish())
