"""The webhook source, asked over HTTP, without a broker: the test acknowledges records itself."""

import asyncio
import hashlib
import hmac
import json

import pytest

from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.plugins.http.requests import Service
from ottla.connect.plugins.http.webhook import WebhookSourceConnector
from ottla.connect.testing import OtherSide, PluginFaults, check_source

CONFIG = {"topic": "t", "listen.port": "0", "listen.path": "/in"}


def post(task, body, path="", method="POST", **headers):
    service = Service(task.url + path, 30)
    try:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return service.ask(method, service.target, sent, named)
    finally:
        service.close()


def listening(story, **options):
    async def run():
        given = {name.replace("_", "."): value for name, value in options.items()}
        task = WebhookSourceConnector.task(CONFIG | given)
        await task.start(None)
        try:
            return await story(task)
        finally:
            await task.close()

    return asyncio.run(run())


def sent(body, count=1, **more):
    """The records that a request becomes, and its answer behind their acknowledgement."""
    headers = more.pop("headers", {})

    async def story(task):
        answer = asyncio.ensure_future(asyncio.to_thread(post, task, body, **headers))
        records = await task.read()
        assert len(records) == count
        assert not answer.done()
        task.acknowledged(records)
        return records, await answer

    return listening(story, **more)


def refused(body=b"{}", headers=None, **more):
    async def story(task):
        return await asyncio.to_thread(post, task, body, **(headers or {}))

    return listening(story, **more)


def test_a_request_is_answered_once_its_record_is_in_kafka():
    [record], answer = sent({"bird": "wren", "n": 1.5})
    assert record.value == {"bird": "wren", "n": 1.5}
    assert answer.status == 200
    assert '{"records":1}' in answer.reason


def test_an_array_becomes_records_with_their_own_keys():
    body = {"data": [{"id": 1}, {"id": 2}]}
    records, _ = sent(body, 2, records_pointer="/data", key_pointer="/id")
    assert [(each.key, each.value) for each in records] == [("1", {"id": 1}), ("2", {"id": 2})]


def test_the_bytes_of_a_body_are_kept_with_the_headers_that_are_asked_for():
    headers = {"X_Event": "push", "X_Delivery": "d1"}
    [record], _ = sent(b"\x00x", format="bytes", headers=headers, key_header="X-Delivery")
    assert (record.key, record.value, record.headers) == ("d1", b"\x00x", ())
    [record], _ = sent(b"x", **{"format": "bytes", "headers": headers}, key_header="X-Delivery")
    assert record.key == "d1"


def test_only_a_signed_request_is_taken():
    signed = hmac.new(b"s", b"{}", hashlib.sha256).hexdigest()
    options = {"signature": "github", "signature_secret": "s"}
    assert sent(b"{}", headers={"X_Hub_Signature_256": f"sha256={signed}"}, **options)[1].status == 200
    answer = refused(headers={"X_Hub_Signature_256": f"sha256={signed[::-1]}"}, **options)
    assert (answer.status, "another secret or another body" in answer.reason) == (401, True)


def test_only_a_request_with_the_token_is_taken():
    assert sent(b"{}", headers={"Authorization": "Bearer abc"}, auth_token="abc")[1].status == 200
    assert refused(headers={"Authorization": "Bearer abd"}, auth_token="abc").status == 401


@pytest.mark.parametrize(
    ("body", "more", "status"),
    [
        (b"{", {}, 400),
        (b"[1]", {"records_pointer": "/data"}, 400),
        (b"{}", {"key_header": "X-Id"}, 400),
        (b'{"n": 0.12345678901234567890}', {}, 400),
        (b"x" * 100, {"max_body_bytes": "99"}, 413),
        (b"{}", {"ack_timeout_ms": "1"}, 503),
    ],
)
def test_a_request_that_is_not_taken_is_told_why_by_its_status(body, more, status):
    assert refused(body, **more).status == status


def test_a_listener_that_is_full_says_so_and_takes_more_later():
    async def story(task):
        waiting = asyncio.ensure_future(asyncio.to_thread(post, task, {}))
        records = await task.read()
        answer = await asyncio.to_thread(post, task, {})
        assert (answer.status, answer.retry_after_ms) == (429, 1000)
        task.acknowledged(records)
        assert (await waiting).status == 200
        again = asyncio.ensure_future(asyncio.to_thread(post, task, {}))
        task.acknowledged(await task.read())
        assert (await again).status == 200

    listening(story, max_pending="1")


def test_a_sender_that_waits_while_the_task_ends_is_asked_to_send_again():
    async def run():
        task = WebhookSourceConnector.task(CONFIG)
        await task.start(None)
        waiting = asyncio.ensure_future(asyncio.to_thread(post, task, {}))
        await task.read()
        await task.close()
        return await waiting

    assert asyncio.run(run()).status == 503


def test_a_port_that_is_taken_may_become_free():
    async def story(task):
        port = task.url.split(":")[2].split("/")[0]
        other = WebhookSourceConnector.task(CONFIG | {"listen.port": port})
        with pytest.raises(RetriableException, match=r"free the port, or set listen.port"):
            await other.start(None)
        await other.close()

    listening(story)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"signature": "github"}, "signature and signature.secret go together"),
        ({"signature": "template", "signature.secret": "s"}, "needs signature.header and signature.template"),
        ({"format": "bytes", "key.pointer": "/id"}, "set format=json"),
        ({"records.pointer": "data"}, "a JSON pointer begins with /"),
        ({"tls.key": "k"}, "tls.certificate and tls.key go together"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, sentence):
    with pytest.raises(ConfigException, match=sentence):
        WebhookSourceConnector.tasks(CONFIG | options, 1)


async def feed(task):
    for n in range(3):
        assert (await asyncio.to_thread(post, task, {"n": n})).status == 200


def test_the_webhook_source_passes_the_kit():
    found = check_source(WebhookSourceConnector, lambda: OtherSide(CONFIG, feed=feed), records=3)
    assert [each.value for each in found] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_the_kit_names_a_source_that_forgets_its_senders():
    class Forgets(WebhookSourceConnector):
        @classmethod
        def task(cls, config):
            made = WebhookSourceConnector.task(config)
            made.acknowledged = lambda records: None
            return made

    with pytest.raises(PluginFaults, match=r"records were acknowledged, and their sender has no answer|then waited"):
        check_source(Forgets, lambda: OtherSide(CONFIG, feed=feed), records=3, patience_s=0.5)
