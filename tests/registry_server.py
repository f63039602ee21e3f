"""A small schema registry over HTTP for tests of its clients: subjects, versions, ids and references, in memory.

It answers like Confluent's, without compatibility checks. Tests can order faults and read the requests.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """`with RegistryServer() as registry` listens on a free port of the loopback."""

    def __init__(self):
        self.subjects = {}
        self.ids = {}
        self.requests = []
        self.faults = []
        """Status codes for the answers to the next requests."""

    def __enter__(self):
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                owner._answer(self, "GET", None)

            def do_POST(self):
                owner._answer(self, "POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def register(self, subject, text, kind="AVRO", references=()):
        """Register a schema in a subject as POST does; return its id."""
        if not isinstance(text, str):
            text = json.dumps(text)
        entry = {"schema": text, "schemaType": kind, "references": list(references)}
        wanted = next((number for number, known in self.ids.items() if known == entry), len(self.ids) + 1)
        self.ids[wanted] = entry
        versions = self.subjects.setdefault(subject, [])
        if wanted not in versions:
            versions.append(wanted)
        return wanted

    def _answer(self, handler, method, body):
        path = urlsplit(handler.path).path
        self.requests.append((method, path, handler.headers.get("Authorization")))
        status, answer = (self.faults.pop(0), {"message": "ordered"}) if self.faults else self._route(path, body)
        content = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _route(self, path, body):
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                found = self.ids.get(int(number))
                return (200, self._shown(found)) if found else (404, _error(40403, "Schema not found"))
            case ["subjects", subject, "versions"] if body is not None:
                kind, references = body.get("schemaType", "AVRO"), body.get("references", ())
                return 200, {"id": self.register(subject, body["schema"], kind, references)}
            case ["subjects", subject] if body is not None:
                return self._lookup(subject, body)
            case ["subjects", subject, "versions", version]:
                return self._version(subject, version)
        return 404, _error(404, "HTTP 404 Not Found")

    def _lookup(self, subject, body):
        for version, number in enumerate(self.subjects.get(subject, ()), 1):
            if self.ids[number]["schema"] == body["schema"]:
                return 200, {"subject": subject, "version": version, "id": number, **self._shown(self.ids[number])}
        return 404, _error(40403, "Schema not found")

    def _version(self, subject, version):
        versions = self.subjects.get(subject)
        if not versions:
            return 404, _error(40401, f"Subject '{subject}' not found.")
        place = len(versions) if version in ("latest", "-1") else int(version)
        if not 1 <= place <= len(versions):
            return 404, _error(40402, f"Version {version} not found.")
        number = versions[place - 1]
        return 200, {"subject": subject, "version": place, "id": number, **self._shown(self.ids[number])}

    def _shown(self, entry):
        """An entry as the registry shows it; a schema without a type is AVRO."""
        shown = {"schema": entry["schema"]}
        if entry["schemaType"] != "AVRO":
            shown["schemaType"] = entry["schemaType"]
        if entry["references"]:
            shown["references"] = entry["references"]
        return shown


def _error(code, message):
    return {"error_code": code, "message": message}
