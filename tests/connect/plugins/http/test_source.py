"""The HTTP source against a service in this process, and its pages without one."""

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.plugins.http.pages import ByPage, Page, Pointer
from ottla.connect.plugins.http.source import HttpSourceConnector
from ottla.connect.testing import OtherSide, check_source

BIRDS = [{"id": 1, "at": "a"}, {"id": 2, "at": "b"}, {"id": 3, "at": "b"}]


class Api:
    """A service with a few ways to page through what it has."""

    def __init__(self):
        self.items, self.seen, self.fault = list(BIRDS), [], None
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                api.seen.append((self.path, dict(self.headers)))
                parts = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
                status, headers, content = api.fault or getattr(api, parts.path.strip("/"))(asked, self.headers)
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def since(self, asked, _):
        return 200, {}, {"data": [each for each in self.items if each["at"] >= asked["at"]]}

    def pages(self, asked, _):
        page = int(asked.get("page") or 0)
        more = (
            {"Link": f'</pages?page={page + 1}>; rel="next", </pages>; rel="first"'}
            if page + 1 < len(self.items)
            else {}
        )
        return 200, more, self.items[page : page + 1]

    def cursor(self, asked, _):
        at = int(asked["from"] or 0)
        return 200, {"X-Next": str(min(at + 2, len(self.items)))}, self.items[at : at + 2]

    def document(self, _, headers):
        tag = f'"{len(self.items)}"'
        return (304, {}, b"") if headers["If-None-Match"] == tag else (200, {"ETag": tag}, self.items)


@pytest.fixture
def api():
    made = Api()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


MODES = {
    "field": {"path": "/since?at=${offset}", "offset.pointer": "/at", "records.pointer": "/data"},
    "link": {"path": "/pages"},
    "header": {"path": "/cursor?from=${offset}", "offset.header": "X-Next"},
    "version": {"path": "/document"},
}


def config(api, mode, **more):
    given = dict(MODES[mode])
    return {
        "http.url": api.url + given.pop("path"),
        "topic": "t",
        "poll.interval.ms": "1",
        "offset.mode": mode,
        **given,
        **more,
    }


class Kept:
    def __init__(self, offset=None):
        self.offset = offset

    async def read(self, partitions):
        return [self.offset for _ in partitions]


def read(given, count, offset=None):
    async def story():
        task = HttpSourceConnector.task(given)
        try:
            await task.start(Kept(offset))
            found = []
            async with asyncio.timeout(60):
                while len(found) < count:
                    found += await task.read()
            return found
        finally:
            await task.close()

    return asyncio.run(story())


@pytest.mark.parametrize("mode", MODES)
def test_each_kind_of_offset_passes_the_kit(api, mode):
    def side():
        api.items, api.fault = list(BIRDS), None

        @contextmanager
        def away():
            api.fault = (503, {}, b"")
            yield
            api.fault = None

        return OtherSide(config(api, mode), trouble=away)

    found = check_source(HttpSourceConnector, side, records=3)
    assert [each.value["id"] for each in found] == [1, 2, 3]


@pytest.mark.parametrize("mode", ["field", "link", "header"])
def test_records_that_come_later_are_read_alone(api, mode):
    first = read(config(api, mode), 3)
    api.items.append({"id": 4, "at": "b"})
    assert [each.value["id"] for each in read(config(api, mode), 1, first[-1].source_offset)] == [4]


def test_a_document_that_has_changed_is_read_whole(api):
    first = read(config(api, "version"), 3)
    api.items = [{"id": 9, "at": "z"}]
    assert [each.value["id"] for each in read(config(api, "version"), 1, first[-1].source_offset)] == [9]
    assert api.seen[-1][1]["If-None-Match"] == '"3"'


def test_a_record_has_its_key_and_the_secret_goes_into_the_header_that_is_named(api):
    more = {"key.pointer": "/id", "http.auth": "header", "http.auth.header": "X-Api-Key", "http.secret": "s3"}
    assert [each.key for each in read(config(api, "version", **more), 3)] == ["1", "2", "3"]
    assert api.seen[0][1]["X-Api-Key"] == "s3"


def test_a_number_that_a_double_cannot_hold_is_a_refused_record(api):
    api.fault = (200, {}, b'[{"id": 1, "n": 0.1234567890123456789}]')
    [record] = read(config(api, "version"), 1)
    assert "more digits than a double" in str(record.fault)


@pytest.mark.parametrize(
    ("fault", "error", "sentence"),
    [
        ((404, {}, b""), ConnectException, "404 Not Found"),
        ((302, {"Location": "/new"}, b""), ConnectException, "it moved to /new: set the address to that"),
        ((200, {}, {"data": 1}), ConnectException, "there is no array at the top, but an object"),
        ((503, {}, b""), RetriableException, "503 Service Unavailable"),
        ((200, {}, ["x" * 200]), ConnectException, "more than 150 bytes: raise http.max.bytes"),
        ((200, {"Link": '<http://evil.example/>; rel="next"'}, []), ConnectException, "another server than http.url"),
    ],
)
def test_an_answer_that_cannot_be_used_ends_the_task(api, fault, error, sentence):
    api.fault = fault
    with pytest.raises(error, match=sentence):
        read(config(api, "link", **{"max.retries": "0", "http.max.bytes": "150"}), 1)


def test_links_are_found_among_others_and_made_absolute():
    paging = ByPage("", None)
    links = '<http://h/a?x=1,2>; title="a, b"; rel=prev, <b?page=2>; title="x; y"; rel="last next"'
    assert paging.further(None, Page([], {"link": links}, url="http://h/a")) == {
        "page": "http://h/b?page=2",
        "taken": 0,
    }
    assert paging.further(None, Page([], {"link": '<b>; rel="nextish"'}, url="http://h/a")) is None


def test_pointers_follow_their_rfc():
    content = {"a/b": {"~": [10, {"": 5}]}}
    assert Pointer("/a~1b/~0/0").at(content) == 10
    assert Pointer("/a~1b/~0/1/").at(content) == 5
    assert Pointer("").at(content) is content


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"offset.mode": "field"}, "offset.mode=field and offset.pointer go together"),
        ({"offset.mode": "header", "offset.header": "X"}, r"needs \$\{offset\} in http.url"),
        ({"http.url": "http://h/${since}"}, r"the only variable is \$\{offset\}"),
        ({"http.auth": "header", "http.secret": "s"}, "http.auth=header needs http.auth.header"),
        ({"http.secret": "s"}, "http.auth=none has no use for http.secret"),
    ],
)
def test_options_that_do_not_go_together_are_refused(more, sentence):
    with pytest.raises(ConfigException, match=sentence):
        HttpSourceConnector.tasks({"http.url": "http://h/", "topic": "t", **more}, 1)


def test_offsets_of_another_mode_are_refused():
    given = {"http.url": "http://h/", "topic": "t", "offset.mode": "link"}
    HttpSourceConnector.check_offsets(given, [({"url": "http://h/"}, {"page": None, "taken": 2})])
    with pytest.raises(ConfigException, match="an offset has page, taken"):
        HttpSourceConnector.check_offsets(given, [({"url": "http://h/"}, {"version": "1", "taken": 2, "done": True})])
