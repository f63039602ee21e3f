"""Records and versions of schemas with a registry beside the broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.console.browsing import Browser, browsing

from ottla.client.registry_client import RegistryClient
from ottla.console.desk import ConsoleSetting
from ottla.console.given_servers import decoding
from ottla.registry.server import RegistryThread
from ottla.testing import TestBroker

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}
NOTE = {"name": "note", "type": "string"}


@pytest.fixture
def setting(console_broker: TestBroker) -> Iterator[ConsoleSetting]:
    with RegistryThread(console_broker.bootstrap_servers, port=0, topic="_schemas-console") as registry:
        client = RegistryClient((registry.url,))
        yield ConsoleSetting(console_broker.bootstrap_servers, registry=client, decoding=decoding())


def test_typed_records_are_written_decoded_and_found_and_versions_stand_side_by_side(
    setting: ConsoleSetting, console_broker: TestBroker
) -> None:
    topic = console_broker.new_topic_name("typed")
    subject = f"{topic}-value"

    def schema(*more: object) -> str:
        return json.dumps({**FIRST, "fields": [*FIRST["fields"], *more]})

    async def visit(one: Browser) -> None:
        await one.confirm("topic-create", topic=topic, partitions=1)
        await one.confirm("schema-register", subject=subject, schema=schema())
        for at, who in enumerate(("anna", "bo")):
            value = json.dumps({"id": at, "who": who})
            await one.confirm("produce", topic=topic, value=value, schema="latest", key=f"k{at}")
        assert "who" in await one.post("produce", 400, topic=topic, value='{"id": 1}', schema="latest")
        assert "no JSON" in await one.post("produce", 400, topic=topic, value="{", schema="latest")
        [newest, _] = (await one.json("messages", topic=topic))["records"]
        assert (newest["value"]["kind"], json.loads(newest["value"]["text"])) == ("schema", {"id": 1, "who": "bo"})
        search = (await one.json("messages", topic=topic, where='value.who = "anna" and value.id < 1'))["search"]
        told = [each async for each in one.events(f"/live/search?id={search}")]
        assert [record["offset"] for name, each in told if name == "rows" for record in each["records"]] == ["0"]

        refused = await one.post("schema-register", 400, subject=subject, schema=schema(NOTE))
        assert "the field note of Order has no default" in refused
        await one.confirm("schema-register", subject=subject, schema=schema({**NOTE, "default": ""}))
        found = await one.json("schema", subject=subject)
        assert (found["versions"], found["left"], found["right"], found["level"]) == ([1, 2], 1, 2, "BACKWARD")
        assert found["verdict"] == ["It is compatible with version 1."]
        assert any(kind != "same" and '"note"' in right for kind, _, right in found["rows"])
        assert "FORWARD" in await one.confirm("schema-compatibility", subject=subject, level="FORWARD")
        assert (await one.json("schema", subject=subject))["level"] == "FORWARD"
        assert subject in await one.page("schemas", q="TYPED")
        await one.page("schema", 404, subject="none")

    browsing(setting, visit)
