"""The registry's client against a small registry over HTTP."""

import asyncio
import json
import socket

import pytest
from tests.registry_server import RegistryServer

from ottla.client import registry_client
from ottla.client.registry_client import (
    PASSWORD,
    TOKEN,
    USER,
    AsyncRegistryClient,
    RegistryClient,
    RegistryRefusal,
    RegistryUnavailable,
    registry,
    registry_urls,
)
from ottla.formats.faults import UnknownSchema
from ottla.formats.writer import WriterSchema
from ottla.web.credentials import Credential

TEXT = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(registry_client, "FIRST_PAUSE_SECONDS", 0.001)
    for name in (USER, PASSWORD, TOKEN):
        monkeypatch.delenv(name, raising=False)
    with RegistryServer() as running:
        yield running


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_schema_is_fetched_once(server):
    number = server.register("t-value", TEXT)
    client = RegistryClient((server.url,))
    assert client.schema(number) == client.schema(number) == WriterSchema("AVRO", TEXT)
    assert len(server.requests) == 1


def test_an_unknown_id_is_not_asked_for_again_at_once(server):
    client = RegistryClient((server.url,))
    for _ in range(3):
        with pytest.raises(UnknownSchema, match="40403"):
            client.schema(9)
    assert len(server.requests) == 1


def test_references_come_before_those_that_need_them(server):
    server.register("city", '{"type":"record","name":"City","fields":[]}')
    city = {"name": "City", "subject": "city", "version": 1}
    server.register("address", '{"type":"record","name":"Address","fields":[]}', references=[city])
    address = {"name": "Address", "subject": "address", "version": 1}
    number = server.register("t-value", TEXT, references=[address, city])
    found = RegistryClient((server.url,)).schema(number)
    assert [name for name, _ in found.named_references] == ["City", "Address"]
    assert '"City"' in found.references[0]


def test_the_latest_version_of_a_subject(server):
    server.register("a/b c-value", TEXT)
    second = server.register("a/b c-value", "message M {}", "PROTOBUF")
    latest = RegistryClient((server.url,)).latest("a/b c-value")
    assert (latest.version, latest.schema_id, latest.schema.kind) == (2, second, "PROTOBUF")
    with pytest.raises(UnknownSchema, match="subject nothing"):
        RegistryClient((server.url,)).latest("nothing")


def test_registering_gives_the_id_and_says_the_kind(server):
    client = RegistryClient((server.url,))
    assert client.register("s", WriterSchema("AVRO", TEXT)) == client.register("s", WriterSchema("AVRO", TEXT))
    number = client.register("s", WriterSchema("JSON", "{}"))
    assert client.schema(number).kind == "JSON"


def test_a_server_in_trouble_is_asked_again(server):
    number = server.register("s", TEXT)
    server.faults = [500, 503, 429]
    assert RegistryClient((server.url,)).schema(number).text == TEXT
    server.faults = [500] * 100
    with pytest.raises(RegistryUnavailable, match="500"):
        RegistryClient((server.url,)).schema(number)


def test_a_registry_that_is_away_is_named_after_as_many_tries_as_were_asked_for():
    urls = (f"http://127.0.0.1:{closed_port()}", f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(RegistryUnavailable, match=f"no registry answers at {urls[0]}, {urls[1]}; the last answer: "):
        RegistryClient(urls, rounds=1).ask("GET", "/subjects")


def test_a_server_is_tried_as_often_as_was_asked_for(server):
    server.faults = [500] * 100
    with pytest.raises(RegistryUnavailable):
        RegistryClient((server.url,), rounds=2).latest("s")
    assert len(server.requests) == 2


def test_asyncio_has_the_same_calls_and_asks_once_for_a_schema(server):
    async def story():
        client = AsyncRegistryClient(RegistryClient((server.url,)))
        number = await client.register("s", WriterSchema("AVRO", TEXT))
        assert (await client.latest("s")).schema_id == number
        asked = len(server.requests)
        assert await client.schema(number) == await client.schema(number) == WriterSchema("AVRO", TEXT)
        assert len(server.requests) == asked + 1
        with pytest.raises(UnknownSchema):
            await client.schema(99)

    asyncio.run(story())


def test_a_refusal_is_not_repeated(server):
    server.faults = [422]
    with pytest.raises(RegistryRefusal, match="answers 422"):
        RegistryClient((server.url,)).register("s", WriterSchema("AVRO", TEXT))
    assert len(server.requests) == 1


def test_the_url_that_answers_is_asked_first_from_then_on(server):
    number = server.register("s", TEXT)
    client = RegistryClient((f"http://127.0.0.1:{closed_port()}", server.url))
    client.schema(number)
    client.latest("s")
    assert client._first == 1 and len(server.requests) == 2


def test_credentials_come_from_the_environment(server, monkeypatch):
    server.register("s", TEXT)
    client = RegistryClient((server.url,))
    client.latest("s")
    monkeypatch.setenv(USER, "me")
    monkeypatch.setenv(PASSWORD, "secret")
    client.latest("s")
    monkeypatch.setenv(TOKEN, "abc")
    client.latest("s")
    assert [authorization for _, _, authorization in server.requests] == [None, "Basic bWU6c2VjcmV0", "Bearer abc"]


def test_a_client_for_a_user_shows_that_user_s_credential_and_nothing_that_others_were_shown(server, monkeypatch):
    monkeypatch.setenv(USER, "me")
    number = server.register("s", TEXT)
    client = RegistryClient((server.url,))
    client.schema(number)
    anna = client.asked_by(Credential("User:anna", "token", lambda: "Bearer hers"))
    assert anna.known(number) is None
    anna.schema(number)
    client.close()
    assert client.schema(number) == anna.schema(number)
    assert [authorization for _, _, authorization in server.requests] == ["Basic bWU6", "Bearer hers"]


def test_a_refused_user_is_named_in_the_sentence_and_the_registry_s_own_words_are_kept(server):
    client = RegistryClient((server.url,), credential=Credential("User:anna", "password", lambda: "Basic x"))
    for status, said in ((401, "does not take the password of"), (403, "does not let")):
        server.faults = [status]
        with pytest.raises(RegistryRefusal, match=f"{server.url} {said} User:anna") as refused:
            client.latest("s")
        assert (refused.value.status, refused.value.code, refused.value.message) == (status, status, "ordered")
    server.faults = [422]
    with pytest.raises(RegistryRefusal, match=r"the schema registry answers 422 \(422\): ordered"):
        client.latest("s")


def test_a_refusal_counts_as_no_schema_where_the_client_says_so(server):
    number = server.register("s", TEXT)
    for unseen, error in (({404}, RegistryRefusal), ({403, 404}, UnknownSchema)):
        server.faults = [403]
        client = RegistryClient((server.url,), unseen=frozenset(unseen))
        with pytest.raises(error):
            client.schema(number)
    with pytest.raises(UnknownSchema):
        client.schema(number)
    assert len(server.requests) == 2, "it is not asked again for each value"


def test_what_is_no_registry_is_said_to_be_none(server):
    server._route = lambda path, body: (200, ["not", "a", "registry"])
    with pytest.raises(RegistryUnavailable, match="does not answer as a schema registry does"):
        RegistryClient((server.url,)).latest("s")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" , ", "names no URL"),
        ("localhost:8081", "takes http:// and https:// URLs"),
        ("http://me:secret@host:8081", "must not hold credentials"),
    ],
)
def test_urls_are_checked(text, reason):
    with pytest.raises(ValueError, match=reason):
        registry_urls(text)


def test_a_refused_url_is_that_of_the_option_it_came_from():
    with pytest.raises(ValueError, match=f"^--registry must not hold credentials: set {USER} and {PASSWORD}"):
        registry_urls("http://me:secret@host:8081", "--registry")


def test_several_urls_are_one_client():
    urls = registry_urls("http://a:8081/, https://b")
    assert urls == ("http://a:8081", "https://b")
    assert registry(urls) is registry(urls)


def test_the_server_of_the_tests_speaks_to_confluents_client(server):
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

    client = SchemaRegistryClient({"url": server.url})
    number = client.register_schema("s", Schema(TEXT, "AVRO"))
    assert json.loads(client.get_schema(number).schema_str) == json.loads(TEXT)
    assert RegistryClient((server.url,)).latest("s").schema_id == number
