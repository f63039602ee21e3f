"""The HTTP sink against a server in this process."""

import asyncio

import pytest
from tests.connect.plugins.http.web_service import serving_service

from ottla.connect import data
from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.plugins.base import RefusedRecords
from ottla.connect.plugins.http.requests import Answer, retry_after_ms
from ottla.connect.plugins.http.sink import HttpSinkConnector
from ottla.connect.records import SinkRecord


@pytest.fixture
def service():
    with serving_service() as made:
        yield made


def put(service, *values, key="k", path="/in", **options):
    given = {name.replace("_", "."): value for name, value in options.items()}
    config = {"http.url": service.url + path, "retry.backoff.ms": "0", "max.retries": "2"} | given
    records = [SinkRecord("t", 0, data.STRING, key, None, value, offset=at) for at, value in enumerate(values)]

    async def story():
        task = HttpSinkConnector.task(config)
        try:
            await task.put(records)
        finally:
            await task.close()

    asyncio.run(story())


def test_each_record_is_a_request_in_its_order_with_topic_and_key_in_the_address(service):
    put(service, {"a": 1}, {"a": 2}, key="x/y", path="/${topic}/${key}?q=1", http_method="PUT")
    assert [(method, path) for method, path, _, _ in service.seen] == [("PUT", "/t/x%2Fy?q=1")] * 2
    assert service.bodies == [{"a": 1}, {"a": 2}]


def test_batches_are_arrays(service):
    put(service, 1, 2, 3, batch_size="2")
    assert service.bodies == [[1, 2], [3]]


def test_headers_and_a_bearer_token_go_along(service):
    put(service, 1, http_headers="X-From: ottla, X-B: c", http_auth="bearer", http_secret="s3cret")
    headers = service.seen[0][3]
    assert (headers["X-From"], headers["X-B"], headers["Authorization"]) == ("ottla", "c", "Bearer s3cret")


def test_a_password_goes_along_as_basic(service):
    put(service, 1, http_auth="basic", http_user="u", http_secret="p")
    assert service.seen[0][3]["Authorization"] == "Basic dTpw"


def test_a_busy_service_gets_the_same_request_again_before_the_next_one(service):
    service.answers = lambda body: (503 if len(service.seen) == 1 else 429 if len(service.seen) == 2 else 200, {})
    put(service, 1, 2)
    assert service.bodies == [1, 1, 1, 2]


def test_a_service_that_stays_busy_is_a_fault_that_may_pass(service):
    service.answers = lambda body: (500, {})
    with pytest.raises(RetriableException, match="500"):
        put(service, 1)
    assert service.bodies == [1, 1, 1]


def test_a_refused_record_of_a_batch_costs_itself_alone(service):
    service.answers = lambda body: (422 if 3 in body else 200, {})
    with pytest.raises(RefusedRecords) as caught:
        put(service, 1, 2, 3, 4, batch_size="4")
    assert [record.value for record, _ in caught.value.refused] == [3]
    assert [body for body in service.bodies if 3 not in body] == [[1, 2], [4]]


@pytest.mark.parametrize(("status", "word"), [(401, "401"), (308, "set the address to that")])
def test_an_answer_about_the_options_ends_the_task(service, status, word):
    service.answers = lambda body: (status, {"Location": "/other"})
    with pytest.raises(ConnectException, match=word) as caught:
        put(service, 1, 2)
    assert not isinstance(caught.value, RefusedRecords)
    assert service.bodies == [1]


def test_a_record_without_the_key_of_the_address_is_refused(service):
    with pytest.raises(RefusedRecords, match="the record has no key"):
        put(service, 1, key=None, path="/${key}")
    assert service.seen == []


def test_bytes_are_refused_with_the_converter_to_use(service):
    with pytest.raises(RefusedRecords, match=r"set value\.converter to a JsonConverter"):
        put(service, b"raw")


@pytest.mark.parametrize(("status", "may_pass"), [(0, True), (408, True), (429, True), (502, True), (400, False)])
def test_answers_that_may_pass(status, may_pass):
    assert Answer(status, "").may_pass is may_pass


@pytest.mark.parametrize(
    ("options", "why"),
    [({"http.url": "ftp://h"}, "write http://HOST/PATH"), ({"http.url": "http://h/${kex}"}, "is unknown"),
     ({"http.headers": "X"}, "write NAME: VALUE"), ({"http.url": "http://h/a b"}, "without blanks"),
     ({"http.url": "http://h:x/"}, "Port"), ({"http.auth": "bearer", "http.secret": "a\nb"}, "is no token"),
     ({"http.auth": "bearer"}, "http.auth=bearer needs http.secret"),
     ({"http.secret": "s"}, "http.auth=none has no use for http.secret")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options, why):
    with pytest.raises(ConfigException, match=why):
        HttpSinkConnector.tasks({"http.url": "http://h/"} | options, 1)


def test_a_date_to_come_back_at_is_understood():
    assert retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", now_s=50) == 10_000
    assert retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", now_s=70) == 0
    assert (retry_after_ms("3", now_s=50), retry_after_ms("soon", now_s=50)) == (3000, 0)


def test_the_wait_is_the_one_that_the_service_asks_for(service, monkeypatch):
    waits = []

    async def slept(seconds):
        waits.append(seconds)

    monkeypatch.setattr("ottla.connect.plugins.http.requests.asyncio.sleep", slept)
    service.answers = lambda body: (200, {}) if len(service.seen) == 2 else (429, {"Retry-After": "7"})
    put(service, 1)
    assert waits == [7]
