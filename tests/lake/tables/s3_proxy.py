"""A proxy before an S3 server that can lose the answer to a put: the object is there, but its writer gets no answer.

It runs in a process of its own, since the library holds the interpreter's lock while it waits for an answer.
`PUT /-lose/N` asks it to lose the answers to the next N puts into a Delta log; `GET /-lost` says how many it lost.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

LOSING = "_delta_log"


class S3Proxy:
    """The proxy as a test sees it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def lose(self, answers: int) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/-lose/{answers}", method="PUT"), timeout=30).close()

    @property
    def lost(self) -> int:
        with urllib.request.urlopen(f"{self.url}/-lost", timeout=30) as answer:
            return int(answer.read())


@contextmanager
def proxied(endpoint: str) -> Iterator[S3Proxy]:
    """A proxy before the server at `endpoint`."""
    command = [sys.executable, "-m", "tests.lake.tables.s3_proxy", urlsplit(endpoint).netloc]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield S3Proxy(f"http://127.0.0.1:{process.stdout.readline().strip()}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class _Server(ThreadingHTTPServer):
    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.lose = 0
        self.lost = 0


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        if self.path.startswith("/-lose/"):
            self.server.lose = int(self.path.removeprefix("/-lose/"))
            self._answer(200, [], b"")
        elif self.path == "/-lost":
            self._answer(200, [], str(self.server.lost).encode())
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection(self.server.behind, timeout=60)
        connection.request(self.command, self.path, body or None, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        put = self.command == "PUT" and answer.status == 200 and LOSING in self.path
        if put and self.server.lose > 0:
            self.server.lose -= 1
            self.server.lost += 1
            self.close_connection = True
            return
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, answer.getheaders(), content, length)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

    def log_message(self, *_: object) -> None:
        """Say nothing on the test's terminal."""


if __name__ == "__main__":
    server = _Server(sys.argv[1])
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
