"""A web service in this process that keeps what it was sent."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service:
    """Keeps what it was sent; `answers` says what comes back for a body."""

    def __init__(self):
        self.seen = []
        self.answers = lambda body: (200, {})
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.seen.append((self.command, self.path, body, dict(self.headers)))
                status, headers = service.answers(body)
                self.send_response(status)
                for name, value in ({"Content-Length": "0"} | headers).items():
                    self.send_header(name, value)
                self.end_headers()

            do_PUT = do_POST

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def bodies(self):
        return [body for _, _, body, _ in self.seen]


@contextmanager
def serving_service():
    """A service, for as long as the block lasts."""
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()
