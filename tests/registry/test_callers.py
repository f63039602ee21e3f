"""A registry that acts as its callers do: users with different rights, over HTTP, against a broker with ACLs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.access.identity import Provider, served
from tests.access.limited import Limited
from tests.access.limited_servers import CALLERS, grant_registry, registry_process, tokens_file, url_of
from tests.access.rights_requests import acl
from tests.registry.http_client import Http, record

from ottla.kernel.acls import Operation, ResourceKind

TOPIC = ResourceKind.TOPIC


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited(["alice", "bob", "carol", "registry", "weak"])
    with one.broker:
        grant_registry(one, "registry")
        one.grant(acl("weak", Operation.ALL, TOPIC, "_schemas", prefixed=True))
        yield one


@pytest.fixture(scope="module")
def url(limited: Limited, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with url_of(registry_process(limited, tmp_path_factory.mktemp("registry"), "registry")) as found:
        yield found


class As(Http):
    """Requests of a user."""

    def __init__(self, url: str, user: str) -> None:
        super().__init__(url)
        self._header = "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return super().__call__(method, path, body, authorization=self._header, **more)


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own timeout ends a wait in vain."""
    while not holds():
        time.sleep(0.1)


def test_each_user_may_do_what_the_acls_of_the_topic_say(limited: Limited, url: str) -> None:
    limited.grant(acl("alice", Operation.WRITE, TOPIC, "parcels"), acl("bob", Operation.READ, TOPIC, "parcels"))
    root, alice, bob, carol = (As(url, user) for user in CALLERS)
    until(lambda: alice.register("parcels-value", record("R", "x")).status == 200)
    until(lambda: bob("GET", "/subjects").json == ["parcels-value"])
    assert root.register("secret-value", record("S", "x")).status == 200
    assert bob("GET", "/subjects/parcels-value/versions/1").json["id"] == 1
    refused = bob.register("parcels-value", record("R", "x", y=1))
    assert refused.code == (403, 40301)
    assert refused.json["message"] == ("User:bob has no right to write on topic parcels [TOPIC_AUTHORIZATION_FAILED]")
    assert root("GET", "/subjects/parcels-value/versions").json == [1], "the refused call had no effect"
    for user in (bob, carol):
        there, absent = user("GET", "/subjects/secret-value/versions"), user("GET", "/subjects/nosuch-value/versions")
        assert there.code == (404, 40401)
        assert json.dumps(there.json).replace("secret", "nosuch") == json.dumps(absent.json)
    assert carol("GET", "/subjects").json == []
    assert carol("GET", "/schemas/ids/1").code == (404, 40403)
    assert Http(url)("GET", "/subjects").status == 401


def test_a_change_of_rights_counts_for_later_requests(limited: Limited, url: str) -> None:
    carol = As(url, "carol")
    assert carol.register("boats-value", record("B", "x")).code == (403, 40301)
    limited.grant(acl("carol", Operation.WRITE, TOPIC, "boats"))
    until(lambda: carol.register("boats-value", record("B", "x")).status == 200)
    assert limited.take("carol") == 1
    until(lambda: carol("GET", "/subjects/boats-value/versions").status == 404)
    assert carol.register("boats-value", record("B", "x")).code == (403, 40301)


def test_serializers_work_with_the_rights_that_clients_need_anyway(limited: Limited, url: str) -> None:
    limited.grant(acl("alice", Operation.WRITE, TOPIC, "visits"), acl("bob", Operation.READ, TOPIC, "visits"))
    writer, reader = (SchemaRegistryClient({"url": url, "basic.auth.user.info": f"{user}:{user}"})
                      for user in ("alice", "bob"))  # fmt: skip
    until(lambda: As(url, "alice").register("visits-key", '"int"').status == 200)
    context = SerializationContext("visits", MessageField.VALUE)
    value = AvroSerializer(writer, json.dumps(record("Visit", "id")))({"id": 7}, context)
    assert AvroDeserializer(reader)(value, context) == {"id": 7}


def test_a_registry_that_may_not_read_the_acls_does_not_start(limited: Limited, tmp_path: Path) -> None:
    with registry_process(limited, tmp_path, "weak", "--topic", "_schemas-weak") as process:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
    assert "Grant that user describe and describe-configs on the cluster" in said


def test_owners_of_tokens_have_their_rights_with_the_registrys_own_client(
    limited: Limited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited.grant(acl("carol", Operation.WRITE, TOPIC, "harbours"))
    provider = Provider()
    with served(provider) as provider_url:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"{provider_url}/jwks")
        more = "--topic", "_schemas-tokens", "--tokens", str(tokens_file(tmp_path, provider_url))
        with url_of(registry_process(limited, tmp_path, "registry", *more)) as url:
            client = SchemaRegistryClient({
                "url": url, "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": provider.token("carol"),
                "bearer.auth.logical.cluster": "any", "bearer.auth.identity.pool.id": "any",
            })  # fmt: skip
            until(lambda: As(url, "carol").register("harbours-value", '"int"').status == 200)
            assert client.register_schema("harbours-value", Schema('"int"', "AVRO")) == 1
            with pytest.raises(SchemaRegistryError, match="User:carol has no right to write on topic seas"):
                client.register_schema("seas-value", Schema('"int"', "AVRO"))
            old = Http(url)("GET", "/subjects", authorization=f"Bearer {provider.token('carol', exp=1)}")
            assert (old.status, old.json["error_code"]) == (401, 401)
