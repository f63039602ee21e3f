"""The sink for search against a server in this process that keeps documents as the bulk API does."""

import asyncio
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ottla.connect import data
from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.plugins.base import RefusedRecords
from ottla.connect.plugins.search.sink import SearchSinkConnector, parted
from ottla.connect.records import SinkRecord


class Index:
    """Indexes with external versions; `item` may answer an action in another way, `whole` a request."""

    def __init__(self):
        self.documents, self.versions, self.mappings, self.requests = {}, {}, {}, []
        self.item = self.whole = lambda *asked: None
        self.lock = threading.Lock()
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                with index.lock:
                    index.requests.append((self.command, self.path, dict(self.headers)))
                    status, answer = index.whole(self.command, self.path, body) or index.answer(
                        self.command, self.path, body
                    )
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, method, path, body):
        name = path.strip("/")
        if method == "GET":
            return (200 if name in self.mappings else 404), {}
        if method == "PUT":
            self.mappings[name] = json.loads(body)
            return 200, {}
        lines = [json.loads(line) for line in body.splitlines()]
        return 200, {"items": list(self.carried_out(iter(lines)))}

    def carried_out(self, lines):
        for line in lines:
            ((kind, meta),) = line.items()
            document = None if kind == "delete" else next(lines)
            refused = self.item(kind, meta, document)
            place = (meta["_index"], meta["_id"])
            if refused:
                yield {kind: {"status": refused, "error": {"type": "refused", "reason": str(document)}}}
            elif meta.get("version", 0) <= self.versions.get(place, -1) and "version" in meta:
                yield {kind: {"status": 409, "error": {"type": "version_conflict", "reason": ""}}}
            else:
                self.versions[place] = meta.get("version", 0)
                if kind == "update":
                    document = {**self.documents.get(place, {}), **document["doc"]}
                self.documents.pop(place, None)
                if document is not None:
                    self.documents[place] = document
                yield {kind: {"status": 200}}


@pytest.fixture
def index():
    made = Index()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def put(index, *pairs, schema=None, times=1, **options):
    """Put records with these keys and values, perhaps several times."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    config = {"connection.url": index.url, "retry.backoff.ms": "0", "max.retries": "2", **given}
    records = [SinkRecord("t", 0, None, key, schema, value, 5, offset=at) for at, (key, value) in enumerate(pairs)]

    async def story():
        task = SearchSinkConnector.task(config)
        try:
            for _ in range(times):
                await task.put(records)
        finally:
            await task.close()

    asyncio.run(story())


def test_the_last_value_of_each_key_stays_also_where_records_come_twice(index):
    pairs = [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3}), ("b", None)]
    put(index, *pairs, times=2, behavior_on_null_values="delete", batch_size="1", max_in_flight_requests="3")
    assert index.documents == {("t", "a"): {"n": 3}}


def test_records_without_keys_that_come_twice_are_there_once(index):
    put(index, (None, {"n": 1}), (None, {"n": 1}), times=2, key_ignore="true", connection_compression="true")
    assert index.documents == {("t", "t+0+0"): {"n": 1}, ("t", "t+0+1"): {"n": 1}}


def test_an_upsert_merges_fields(index):
    put(index, ("a", {"n": 1}), ("a", {"m": 2}), write_method="upsert")
    assert index.documents == {("t", "a"): {"n": 1, "m": 2}}


def test_a_new_index_gets_the_mapping_of_the_schema_unless_that_is_ignored(index):
    schema = data.struct([("n", data.INT64)])
    value = data.Struct.of(schema, n=1)
    put(index, ("a", value), schema=schema)
    assert index.mappings == {"t": {"mappings": {"properties": {"n": {"type": "long"}}}}}
    index.mappings.clear()
    put(index, ("b", value), schema=schema, schema_ignore="true")
    assert index.mappings == {"t": {}}


def test_a_document_that_the_server_refuses_costs_itself_alone(index):
    index.item = lambda kind, meta, document: 400 if document == {"n": "x"} else None
    pairs = [("a", {"n": 1}), ("b", {"n": "x"}), (None, {"n": 2}), ("c", {"n": 3})]
    with pytest.raises(RefusedRecords) as caught:
        put(index, *pairs)
    assert [(record.offset, str(fault)[:23]) for record, fault in caught.value.refused] == [
        (1, "refused: {'n': 'x'}"), (2, "the record has no key to"[:23]),
    ]  # fmt: skip
    assert {name for _, name in index.documents} == {"a", "c"}


@pytest.mark.parametrize(("behavior", "logged"), [("warn", True), ("ignore", False)])
def test_a_refused_document_may_be_left_out(index, caplog, behavior, logged):
    index.item = lambda kind, meta, document: 400
    put(index, ("a", {"n": 1}), behavior_on_malformed_documents=behavior)
    assert ("is left out: refused" in caplog.text) is logged


def test_what_may_pass_is_sent_again_and_nothing_else(index):
    tries = []

    def item(kind, meta, document):
        tries.append(meta["_id"])
        return 429 if tries.count("b") == 1 and meta["_id"] == "b" else None

    index.item = item
    put(index, ("a", {}), ("b", {}), ("c", {}))
    assert tries == ["a", "b", "c", "b"]


def test_updates_of_one_document_keep_their_order_when_one_is_sent_again(index):
    tries = []

    def item(kind, meta, document):
        tries.append(document["doc"]["n"])
        return 409 if tries == [1] else None

    index.item = item
    put(index, ("a", {"n": 1}), ("a", {"n": 2}), write_method="UPSERT")
    assert (tries, index.documents) == ([1, 2, 1, 2], {("t", "a"): {"n": 2}})


def test_a_server_that_does_not_answer_is_tried_again_and_then_the_records_are_put_again(index):
    index.whole = lambda method, path, body: (503, {}) if path == "/_bulk" else None
    with pytest.raises(RetriableException, match="2 documents were not taken: 503"):
        put(index, ("a", {}), ("b", {}))
    assert [path for _, path, _ in index.requests].count("/_bulk") == 3


def test_the_next_address_is_asked_where_one_does_not_answer(index):
    put(index, ("a", {}), connection_url=f"http://127.0.0.1:1,{index.url}")
    assert index.documents == {("t", "a"): {}}


def test_a_request_that_is_too_large_is_sent_in_halves(index):
    index.whole = lambda method, path, body: (413, {}) if body.count(b"\n") > 2 and method == "POST" else None
    put(index, ("a", {}), ("b", {}), ("c", {}))
    assert {name for _, name in index.documents} == {"a", "b", "c"}


def test_an_answer_about_the_options_ends_the_task(index):
    index.whole = lambda method, path, body: (401, {})
    with pytest.raises(ConnectException, match="401") as caught:
        put(index, ("a", {}), connection_username="me", connection_password="secret")
    assert not isinstance(caught.value, RetriableException)
    assert index.requests[0][2]["Authorization"] == "Basic bWU6c2VjcmV0"


def test_a_request_has_at_most_so_many_actions_and_bytes(index):
    class Sized:
        def __init__(self, size):
            self.body = b"x" * size

    sizes = [[len(each.body) for each in batch] for batch in parted([Sized(n) for n in (3, 3, 9, 1, 1, 1)], 2, 7)]
    assert sizes == [[3, 3], [9], [1, 1], [1]]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"connection.url": "localhost:9200"}, "write http://HOST:PORT"),
        ({"connection.username": "me"}, "go together"),
        ({"data.stream.type": "logs"}, "needs data.stream.dataset"),
        ({"data.stream.dataset": "x"}, "have an effect with data.stream.type"),
        ({"data.stream.type": "logs", "data.stream.dataset": "x", "write.method": "upsert"}, "cannot be changed"),
        ({"behavior.on.null.values": "keep"}, "one of"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given, fault):
    with pytest.raises(ConfigException, match=fault):
        SearchSinkConnector.tasks({"connection.url": "http://h:1", **given}, 1)
