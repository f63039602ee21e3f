"""The sink for search against a real OpenSearch of one node."""

import asyncio
import subprocess

import pytest
from tests.conftest import NO_OPENSEARCH
from tests.connect.search_node import asked, jars, node_command

from ottla.connect import data
from ottla.connect.plugins.base import RefusedRecords
from ottla.connect.plugins.search.sink import SearchSinkConnector
from ottla.connect.records import SinkRecord

ROW = data.struct([("n", data.INT64), ("day", data.DATE_SCHEMA), ("text", data.OPTIONAL_STRING)])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of a node of this machine."""
    home = tmp_path_factory.mktemp("opensearch")
    if jars() is None:
        pytest.skip(NO_OPENSEARCH)
    with open(home / "log", "wb") as log:
        node = subprocess.Popen(node_command(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    words = node.stdout.readline().split()
    assert words[:1] == [b"port"], (home / "log").read_text()[-2000:]
    yield f"http://127.0.0.1:{int(words[1])}"
    node.kill()
    node.wait()
    node.stdin.close()
    node.stdout.close()


def found(url, index):
    """All documents of an index by their ids."""
    asked(url, f"/{index}/_refresh", "POST")
    hits = asked(url, f"/{index}/_search?size=100")["hits"]["hits"]
    return {hit["_id"]: hit["_source"] for hit in hits}


def put(url, topic, records, times=1, **options):
    given = {name.replace("_", "."): value for name, value in options.items()}
    made = [
        SinkRecord(topic, 0, None, key, ROW if isinstance(value, data.Struct) else None, value, 5, offset=at)
        for at, (key, value) in enumerate(records)
    ]

    async def story():
        task = SearchSinkConnector.task({"connection.url": url, "read.timeout.ms": "60000", **given})
        try:
            for _ in range(times):
                await task.put(made)
        finally:
            await task.close()

    asyncio.run(story())


def row(n, text=None):
    return data.Struct.of(ROW, n=n, day=data.Instant(86_400_000), text=text)


def test_documents_of_keys_stay_the_same_where_records_come_twice(url):
    records = [("a", row(1)), ("b", row(2)), ("a", row(3, "Grüße")), ("b", None)]
    put(url, "keyed", records, times=2, behavior_on_null_values="delete")
    assert found(url, "keyed") == {"a": {"n": 3, "day": "1970-01-02", "text": "Grüße"}}
    properties = asked(url, "/keyed/_mapping")["keyed"]["mappings"]["properties"]
    assert [properties[name]["type"] for name in ("n", "day", "text")] == ["long", "date", "text"]


def test_a_document_that_does_not_fit_its_mapping_is_refused_alone(url):
    with pytest.raises(RefusedRecords, match="failed to parse field") as caught:
        put(url, "bad", [(None, row(1)), (None, {"n": "x"}), (None, row(2))], key_ignore="true")
    assert [record.offset for record, _ in caught.value.refused] == [1]
    assert sorted(found(url, "bad")) == ["bad+0+0", "bad+0+2"]


def test_an_upsert_merges_and_a_data_stream_takes_each_record_once(url):
    put(url, "merged", [("a", {"n": 1}), ("a", {"m": 2})], write_method="upsert")
    assert found(url, "merged") == {"a": {"n": 1, "m": 2}}
    template = {"index_patterns": ["logs-x-*"], "data_stream": {}}
    asked(url, "/_index_template/logs", "PUT", template)
    given = {"data_stream_type": "logs", "data_stream_dataset": "x", "key_ignore": "true"}
    put(url, "stream", [(None, {"n": 1}), (None, {"n": 2})], times=2, **given)
    documents = found(url, "logs-x-stream")
    assert documents["stream+0+0"] == {"n": 1, "@timestamp": 5}
    assert len(documents) == 2
