"""Scenes of `make connect-campaign` whose sink is a server of its own: S3 and OpenSearch.

Where the other side fails, the server stands still for a while (SIGSTOP).
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.connect.scenes import Config, Files
from tests.connect.search_node import asked, jars, node_command
from tests.lake.store_rigs import BUCKET, MotoServer

IN_A_FILE = 10
PAGE = 5_000


class _Stopping(Files):
    """Lines of a file into a server that can stand still."""

    process: subprocess.Popen[bytes]

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class S3(_Stopping):
    """Lines of a file into objects of so many lines."""

    name, exact_sink = "s3", True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = MotoServer(self.folder)
        self.process, self._client = self._server.process, self._server.client()

    def connectors(self) -> tuple[Config, Config]:
        source, _ = super().connectors()
        return source, {
            "connector.class": "S3Sink", "topics": self.topic, "s3.bucket.name": BUCKET, "store.url": self._server.url,
            "s3.region": "us-east-1", "aws.access.key.id": "test", "aws.secret.access.key": "test",
            "format.class": "JsonFormat", "flush.size": str(IN_A_FILE),
        }  # fmt: skip

    def feed(self, piece: Sequence[int]) -> None:
        """Feed whole files alone: the sink keeps a part of one until it is whole."""
        super().feed(piece[: len(piece) // IN_A_FILE * IN_A_FILE])

    def count(self) -> int:
        return len(self._keys()) * IN_A_FILE

    def arrived(self) -> list[str]:
        bodies = [self._client.get_object(Bucket=BUCKET, Key=each)["Body"].read() for each in self._keys()]
        return [json.loads(line) for body in bodies for line in body.splitlines()]

    def is_complete(self) -> bool:
        return self.count() >= len(self.fed) and super().is_complete()

    def _keys(self) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]


class Search(_Stopping):
    """Lines of a file into documents."""

    name, exact_sink = "search", True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with (self.folder / "node.log").open("wb") as log:
            self.process = subprocess.Popen(
                node_command(self.folder / "node"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words[:1] == [b"port"], (self.folder / "node.log").read_text()[-2000:]
        self._url = f"http://127.0.0.1:{int(words[1])}"
        asked(self._url, f"/{self.topic}", "PUT", {})

    @classmethod
    def lacks(cls) -> str:
        return "" if jars() else "OpenSearch's jars"

    def connectors(self) -> tuple[Config, Config]:
        source, _ = super().connectors()
        return source, {
            "connector.class": "ElasticsearchSink", "topics": self.topic, "connection.url": self._url,
            "key.ignore": "true", "schema.ignore": "true", "max.retries": "100", "transforms": "as",
            "transforms.as.type": "org.apache.kafka.connect.transforms.HoistField$Value", "transforms.as.field": "line",
        }  # fmt: skip

    def count(self) -> int:
        asked(self._url, f"/{self.topic}/_refresh", "POST")
        return int(asked(self._url, f"/{self.topic}/_count")["count"])

    def arrived(self) -> list[str]:
        """All documents, page by page."""
        asked(self._url, f"/{self.topic}/_refresh", "POST")
        found: list[dict[str, Any]] = []
        page = asked(self._url, f"/{self.topic}/_search?scroll=1m", "POST", {"size": PAGE, "sort": ["_doc"]})
        while page["hits"]["hits"]:
            found += page["hits"]["hits"]
            page = asked(self._url, "/_search/scroll", "POST", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
        return [str(each["_source"]["line"]) for each in found]

    def is_complete(self) -> bool:
        return self.count() >= len(self.fed) and super().is_complete()
