"""A small Iceberg REST catalog over a SQL one, which can lose the answer to a commit: for tests alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog.rest import CommitTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER


class RestCatalog(ThreadingHTTPServer):
    """The server; it does not send the next `lose` answers to commits, although it makes the commits."""

    def __init__(self, catalog: SqlCatalog) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.catalog = catalog
        self.lock = threading.Lock()
        self.lose = 0
        self.lost = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(catalog: SqlCatalog) -> Iterator[RestCatalog]:
    server = RestCatalog(catalog)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: RestCatalog
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/v1/config"):
            self._answer(200, {"defaults": {}, "overrides": {}})
        elif "/tables/" in self.path:
            try:
                self._table(self.server.catalog.load_table(self._identifier()))
            except NoSuchTableError as fault:
                self._refuse(404, "NoSuchTableException", fault)
        else:
            self._answer(200, {"namespace": ["ottla"], "properties": {}})

    def do_HEAD(self) -> None:
        self._answer(204, None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        parts = self.path.split("/")
        if parts[-1] == "namespaces":
            self._answer(200, {"namespace": body["namespace"], "properties": {}})
        elif parts[-1] == "tables":
            self._table(self._stage(body))
        else:
            self._commit(CommitTableRequest.model_validate(body | {"identifier": body.get("identifier")}))

    def _stage(self, body: dict[str, Any]) -> Table:
        assert body["stage-create"], "ottla makes tables in a transaction"
        return self.server.catalog._create_staged_table(
            ("ottla", body["name"]),
            Schema.model_validate(body["schema"]),
            body["location"],
            UNPARTITIONED_PARTITION_SPEC,
            UNSORTED_SORT_ORDER,
            body["properties"],
        )

    def _commit(self, request: CommitTableRequest) -> None:
        catalog, identifier = self.server.catalog, self._identifier()
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            table = Table(identifier, None, "", None, catalog)  # type: ignore[arg-type]
        try:
            with self.server.lock:
                done = catalog.commit_table(table, request.requirements, request.updates)
        except CommitFailedException as fault:
            self._refuse(409, "CommitFailedException", fault)
            return
        if self.server.lose > 0:
            self.server.lose -= 1
            self.server.lost += 1
            self.close_connection = True
            return
        self._answer(200, {"metadata-location": done.metadata_location, "metadata": _dumped(done.metadata)})

    def _identifier(self) -> tuple[str, str]:
        parts = self.path.partition("?")[0].split("/")
        return unquote(parts[3]), unquote(parts[5])

    def _table(self, table: Table) -> None:
        found = {"metadata-location": table.metadata_location, "metadata": _dumped(table.metadata), "config": {}}
        self._answer(200, found)

    def _refuse(self, code: int, kind: str, fault: Exception) -> None:
        self._answer(code, {"error": {"message": str(fault), "type": kind, "code": code}})

    def _answer(self, code: int, body: object) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing on the test's terminal."""


def _dumped(metadata: Any) -> object:
    return json.loads(metadata.model_dump_json())
