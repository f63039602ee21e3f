"""A proxy in front of an HTTP store that makes chosen requests fail as networks and stores do."""

from __future__ import annotations

import http.client
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATUS = "answer with a status, without asking the store"
LOSE = "ask the store, and close the connection instead of answering"
CUT = "close the connection in the middle of the request's body"
CUT_ANSWER = "close the connection in the middle of the answer's body"
HOLD = "ask the store once the test says so"

_HOP = ("transfer-encoding", "connection", "keep-alive", "content-length")


@dataclass
class Rule:
    """A fault for the next `times` requests of a method whose path and query contain `where`."""

    method: str
    where: str
    action: str
    times: int = 1
    status: int = 503
    unless: str = "\0"
    let_go: threading.Event = field(default_factory=threading.Event)
    struck: threading.Event = field(default_factory=threading.Event)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Connections that wait to be accepted. Five are usual, and the kernel drops others while the process is busy."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a broken connection: clients are killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class FaultProxy:
    """Listens on a port of its own; forwards every request that no rule matches."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.asked: Counter[str] = Counter()
        """Requests that arrived, by method."""
        self.last_signature = ""
        """The Authorization header of the last request."""
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @contextmanager
    def rule(
        self, method: str, where: str, action: str, *, times: int = 1, status: int = 503, unless: str = "\0"
    ) -> Iterator[Rule]:
        """A block in which requests meet the fault; its end asserts that one did."""
        rule = Rule(method, where, action, times, status, unless)
        with self._lock:
            self._rules.append(rule)
        try:
            yield rule
        finally:
            rule.let_go.set()
            with self._lock:
                self._rules.remove(rule)
        assert rule.struck.is_set(), f"no request met {rule}"

    def take(self, method: str, path: str) -> Rule | None:
        with self._lock:
            self.asked[method] += 1
            for rule in self._rules:
                if rule.times and rule.method == method and rule.where in path and rule.unless not in path:
                    rule.times -= 1
                    rule.struck.set()
                    return rule
        return None

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler_of(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            proxy.last_signature = self.headers.get("Authorization") or ""
            rule = proxy.take(self.command, self.path)
            if rule is not None and rule.action == CUT:
                self.rfile.read(int(self.headers.get("Content-Length") or 0) // 2)
                return self.cut()
            body = _body_of(self)
            if rule is not None and rule.action == STATUS:
                return self.answer(rule.status, {}, b"<Error><Code>Simulated</Code></Error>")
            if rule is not None and rule.action == HOLD:
                rule.let_go.wait()
            status, headers, found = self.forward(body)
            if rule is not None and rule.action == LOSE:
                return self.cut()
            return self.answer(status, headers, found, cut=rule is not None and rule.action == CUT_ANSWER)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

        def forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            store = http.client.HTTPConnection("127.0.0.1", proxy.upstream_port, timeout=60)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                store.request(self.command, self.path, body=body, headers={**headers, "Content-Length": str(len(body))})
                found = store.getresponse()
                kept = {name: value for name, value in found.getheaders() if name.lower() not in _HOP}
                if self.command == "HEAD":
                    kept["Content-Length"] = found.getheader("Content-Length") or "0"
                return found.status, kept, found.read()
            finally:
                store.close()

        def answer(self, status: int, headers: dict[str, str], body: bytes, *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("server", "date"):
                    self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.cut()

        def cut(self) -> None:
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing; tests use `asked`."""

    return Handler


def _body_of(request: BaseHTTPRequestHandler) -> bytes:
    """A request's body, also if it comes in chunks, as AWS's own clients send it."""
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    chunks = []
    while size := int(request.rfile.readline().partition(b";")[0], 16):
        chunks.append(request.rfile.read(size))
        request.rfile.readline()
    while request.rfile.readline().strip():
        pass
    return b"".join(chunks)
