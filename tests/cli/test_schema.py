"""`ottla schema` and `ottla registry` end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import run_ottla

from ottla.registry.server import RegistryThread

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": "string", "default": ""}]}  # type: ignore[misc]
BAD = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": "string"}]}  # type: ignore[misc]


@pytest.fixture(scope="module")
def url(bootstrap: str) -> Iterator[str]:
    with RegistryThread(bootstrap, port=0, topic="_schemas-cli") as running:
        yield running.url


def written(folder: Path, name: str, schema: object) -> str:
    path = folder / name
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return str(path)


def test_a_schema_from_registration_to_comparison(url: str, tmp_path: Path) -> None:
    old, new, bad = (
        written(tmp_path, name, each) for name, each in (("o.avsc", OLD), ("n.avsc", NEW), ("b.avsc", BAD))
    )
    assert run_ottla("schema", "register", "orders/v", old, "--url", url).stdout == (
        "registered orders/v, version 1, id 1\n"
    )
    assert "not compatible" in (refused := run_ottla("schema", "check", "orders/v", bad, "--url", url)).stdout
    assert (refused.returncode, "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.stdout) == (1, True)
    assert run_ottla("schema", "register", "orders/v", bad, "--url", url).returncode == 1
    assert run_ottla("schema", "check", "orders/v", new, "--url", url).stdout == "compatible\n"
    answer = run_ottla("schema", "register", "orders/v", new, "--url", url, "--format", "json")
    assert json.loads(answer.stdout)["id"] == 2
    listed = json.loads(run_ottla("schema", "list", "orders", "--url", url, "--format", "json").stdout)
    assert [(each["version"], each["id"]) for each in listed] == [(1, 1), (2, 2)]
    assert "SUBJECT" in run_ottla("schema", "list", "--url", url).stdout
    assert '+      "name": "note",' in run_ottla("schema", "diff", "orders/v", "--url", url).stdout
    assert run_ottla("schema", "diff", "orders/v", "2", "2", "--url", url).stdout == ""
    shown = run_ottla("schema", "show", "orders/v", "1", "--url", url).stdout
    assert shown.startswith("subject orders/v  version 1  id 1  AVRO\n{\n")


def test_references_and_other_types(url: str, tmp_path: Path) -> None:
    inner = written(tmp_path, "inner.proto", 'syntax = "proto3"; package x; message Inner { }')
    outer = written(tmp_path, "outer.proto", 'syntax = "proto3"; import "i.proto"; message Outer { x.Inner i = 1; }')
    assert run_ottla("schema", "register", "inner", inner, "--url", url).returncode == 0
    reference = ("--reference", "i.proto=inner:1")
    assert run_ottla("schema", "register", "outer", outer, *reference, "--url", url).returncode == 0
    assert "refers to i.proto" in run_ottla("schema", "show", "outer", "--url", url).stdout
    assert run_ottla("schema", "register", "outer", outer, "--reference", "odd", "--url", url).returncode == 2


class _WithoutTypes(BaseHTTPRequestHandler):
    """Answers as registries that leave out the type of Avro schemas."""

    def do_GET(self) -> None:
        version = {"subject": "a", "version": 1, "id": 7, "schema": '"int"'}
        content = json.dumps([version] if self.path.startswith("/schemas") else version).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def test_a_registry_that_leaves_out_the_type_of_avro_is_read() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _WithoutTypes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        listed = run_ottla("schema", "list", "--url", url, "--format", "json")
        assert json.loads(listed.stdout) == [{"subject": "a", "version": 1, "id": 7, "schemaType": "AVRO"}]
        assert run_ottla("schema", "list", "--url", url).stdout.endswith("a              1   7  AVRO\n")
        assert run_ottla("schema", "show", "a", "--url", url).stdout == 'subject a  version 1  id 7  AVRO\n"int"\n'
        server.shutdown()


def test_faults_are_said_in_one_line(url: str) -> None:
    missing = run_ottla("schema", "show", "nobody", "--url", url)
    assert (missing.returncode, missing.stderr) == (1, "ottla: Subject 'nobody' not found.\n")
    nowhere = run_ottla("schema", "list", "--url", "http://127.0.0.1:1")
    assert (nowhere.returncode, "no registry answers" in nowhere.stderr) == (1, True)


def test_the_registry_starts_and_stops(bootstrap: str) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "registry", "start", "-b", bootstrap, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert running.stdout is not None
    ready = running.stdout.readline()
    assert ready.startswith("ottla registry ready: http://127.0.0.1:")
    assert run_ottla("schema", "list", "--url", ready.split()[3]).returncode == 0
    running.send_signal(signal.SIGTERM)
    assert running.wait(120) == 0
    running.stdout.close()


def test_a_schema_that_is_no_text_and_a_url_that_is_none_are_one_sentence(url: str, tmp_path: Path) -> None:
    garbled = tmp_path / "order.avsc"
    garbled.write_bytes(b"\xff\xfe")
    done = run_ottla("schema", "register", "garbled", str(garbled), "--url", url)
    assert (done.returncode, done.stderr) == (1, f"ottla: {garbled} is not text in UTF-8: byte 0 is 0xff\n")
    done = run_ottla("schema", "list", "--url", "localhost:8081")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "ottla: 'localhost:8081' (--registry) is not the URL of a registry: write http://HOST:PORT\n"
    )


def test_a_registry_whose_port_is_taken_names_it(bootstrap: str, url: str) -> None:
    port = url.rpartition(":")[2]
    done = run_ottla("registry", "start", "-b", bootstrap, "--port", port)
    assert (done.returncode, done.stderr) == (
        1,
        f"ottla registry: cannot start: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another with --port (0: a free one)\n",
    )
    done = run_ottla("registry", "start", "-b", bootstrap, "--port", "99999")
    assert (done.returncode, "99999 is not a port" in done.stderr) == (2, True)
