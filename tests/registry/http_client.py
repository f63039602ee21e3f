"""Requests to a registry, for tests."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import urllib3

V1 = "application/vnd.schemaregistry.v1+json"
_pool = urllib3.PoolManager(retries=False)


class Answer:
    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.json: Any = json.loads(response.data) if response.data else None

    @property
    def code(self) -> tuple[int, int]:
        """HTTP status and error code."""
        return self.status, self.json["error_code"]


class Http:
    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> Answer:
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        given = {"content-type": V1} | {name.replace("_", "-"): value for name, value in headers.items()}
        return Answer(_pool.request(method, self.url + path, body=content, headers=given, timeout=30))

    def register(self, subject: str, schema: Any, **more: Any) -> Answer:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text, **more})


def record(name: str, *fields: str, **defaults: int) -> dict[str, Any]:
    """An Avro record of int fields, those in `defaults` with a default."""
    made: list[dict[str, Any]] = [{"name": each, "type": "int"} for each in fields]
    made += [{"name": each, "type": "int", "default": value} for each, value in defaults.items()]
    return {"type": "record", "name": name, "fields": made}
