"""The registry and the workers are asked as the user who logged in: real ones with passwords, judged by ACLs."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import urllib3
from tests.access.limited import Limited
from tests.access.limited_servers import (
    grant_registry,
    grant_worker,
    registry_process,
    url_of,
    worker_file,
    worker_process,
)
from tests.access.rights_requests import acl
from tests.console.browsing import Browser, browsing
from tests.registry_server import RegistryServer

from ottla.cli.main import main
from ottla.client import Producer
from ottla.client.registry_client import PASSWORD, TOKEN, USER, RegistryRefusal
from ottla.connect.commands import asking
from ottla.console.command import COMMAND, setting_of
from ottla.console.desk import ConsoleSetting, Desk
from ottla.console.given_servers import warnings
from ottla.console.links import LinkRefused
from ottla.console.view import FORM
from ottla.kernel.acls import Operation, ResourceKind
from ottla.web.exchange import Request, Response
from ottla.web.server import listening, serving
from ottla.web.server import url_of as url_at
from ottla.web.thread import LoopThread

TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEXT = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "int", "default": 0}]}
_pool = urllib3.PoolManager(retries=False)


@pytest.fixture(autouse=True)
def no_credential_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (USER, PASSWORD, TOKEN, asking.USER, asking.PASSWORD):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Beside:
    """A broker, a registry and a worker, which know root, alice, bob and carol; the broker knows dave too."""

    limited: Limited
    registry: str
    worker: str
    folder: Path

    @property
    def bootstrap(self) -> str:
        host, port = self.limited.address
        return f"{host}:{port}"

    def setting(self, *options: str) -> ConsoleSetting:
        words = ["-b", self.bootstrap, "--registry", self.registry, "--connect", self.worker, *options]
        return setting_of(COMMAND.parser.parse(words))

    def ask(self, user: str, method: str, url: str, body: Any = None) -> Any:
        """The JSON of an answer to a user, without a console between."""
        headers = urllib3.util.make_headers(basic_auth=f"{user}:{user}") | {"Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        answer = _pool.request(method, url, body=content, headers=headers, timeout=30)
        return json.loads(answer.data) if answer.data else None

    def register(self, subject: str, schema: Any) -> int:
        """Register a schema as root; its id."""
        path = f"{self.registry}/subjects/{subject}/versions"
        return int(self.ask("root", "POST", path, {"schema": json.dumps(schema)})["id"])

    def produce(self, topic: str, value: bytes) -> None:
        security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "root",
                    "sasl.password": "root"}  # fmt: skip
        with Producer(self.bootstrap, security=security) as producer:
            producer.produce(topic, value).result()

    def state(self, connector: str) -> str:
        found = self.ask("root", "GET", f"{self.worker}/connectors/{connector}/status")
        return str(found.get("connector", {}).get("state"))


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own timeout ends a wait in vain."""
    while not holds():
        time.sleep(0.1)


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    limited = Limited(["alice", "bob", "carol", "dave", "registry", "worker"])
    folders = [tmp_path_factory.mktemp(name) for name in ("registry", "worker", "files")]
    with limited.broker:
        grant_registry(limited, "registry")
        grant_worker(limited, "worker")
        for topic in ("parcels", "open"):
            limited.make_topic(topic)
        prefixed = "connect-alice."
        limited.grant(
            acl("alice", Operation.WRITE, TOPIC, "parcels"), acl("alice", Operation.READ, TOPIC, "open"),
            acl("bob", Operation.READ, TOPIC, "parcels"), acl("dave", Operation.READ, TOPIC, "open"),
            acl("alice", Operation.ALL, GROUP, prefixed, prefixed=True), acl("alice", Operation.WRITE, TOPIC, "lines"),
            acl("bob", Operation.DESCRIBE, GROUP, prefixed, prefixed=True),
        )  # fmt: skip
        worker = worker_file(limited, folders[1], "worker", "alone")
        registry = registry_process(limited, folders[0], "registry")
        with url_of(registry) as registry_url, url_of(worker_process(worker)) as worker_url:
            yield Beside(limited, registry_url, worker_url, folders[2])


@pytest.fixture(scope="module")
def schemas(beside: Beside) -> int:
    """Two subjects, of which the second belongs to a topic that root alone may see; the id of its schema."""
    beside.register("parcels-value", ORDER)
    found = beside.register("secret-value", {**ORDER, "name": "Secret"})
    until(lambda: beside.ask("bob", "GET", f"{beside.registry}/subjects") == ["parcels-value"])
    return found


@pytest.fixture(scope="module")
def connector(beside: Beside) -> str:
    """A connector that alice runs, bob sees and nobody else knows of."""
    (beside.folder / "in").write_text("one\n")
    source = {"connector.class": "FileStreamSource", "file": str(beside.folder / "in"), "topic": "lines"}
    beside.ask("root", "PUT", f"{beside.worker}/connectors/alice.in/config", source)
    until(lambda: beside.ask("bob", "GET", f"{beside.worker}/connectors") == ["alice.in"])
    until(lambda: beside.state("alice.in") == "RUNNING")
    return "alice.in"


async def log_in(one: Browser, user: str) -> None:
    body = urlencode({"user": user, "password": user}).encode()
    assert (await one.ask("POST", "/login", body, content_type=FORM)).status == 303


def test_schemas_are_those_that_the_user_may_see_and_change(beside: Beside, schemas: int) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one, "alice")
        found = await one.json("schemas")
        assert [row["subject"] for row in found["list"]["rows"]] == ["parcels-value"]
        lacking = "User:alice has no right to describe-configs on cluster kafka-cluster [CLUSTER_AUTHORIZATION_FAILED]"
        sentence = f"the schema registry at {beside.registry} does not let User:alice do this: {lacking}"
        assert (found["level"], found["faults"]) == ("", [sentence])
        assert sentence in unescape(await one.page("schemas"))
        await one.page("schema", 404, subject="secret-value")
        assert "is registered" in await one.confirm("schema-register", subject="parcels-value", schema=json.dumps(NEXT))
        found = await one.json("schema", subject="parcels-value")
        assert (found["versions"], found["verdict"]) == ([1, 2], ["It is compatible with version 1."])
        [sentence] = found["faults"]
        assert "does not let User:alice do this" in sentence
        assert sentence in unescape(await one.page("schema", subject="parcels-value"))
        refused = await one.post("schema-register", 403, subject="secret-value", schema=json.dumps(NEXT), confirm="yes")
        assert "does not let User:alice do this: User:alice has no right to write on topic secret" in refused

        other = Browser(one.app)
        await log_in(other, "bob")
        assert "parcels-value" in await other.page("schemas")
        again = {"subject": "parcels-value", "schema": json.dumps(NEXT), "confirm": "yes"}
        refused = await other.post("schema-register", 403, **again)
        assert "does not let User:bob do this: User:bob has no right to write on topic parcels" in refused
        await other.post("schema-compatibility", 403, subject="parcels-value", level="FULL")
        boss = Browser(one.app)
        await log_in(boss, "root")
        found = await boss.json("schemas")
        assert (found["level"], found["faults"]) == ("BACKWARD", [])
        question = await boss.post("schema-compatibility", subject="parcels-value", level="FULL")
        assert "curl -u root -X PUT -H 'Content-Type: application/json' -d '{" in question
        assert {row["subject"] for row in found["list"]["rows"]} == {"parcels-value", "secret-value"}

    browsing(beside.setting("--login", "PLAIN"), visit)


def test_a_value_is_decoded_for_those_alone_who_may_see_its_schema(beside: Beside, schemas: int) -> None:
    beside.produce("open", b"\0" + schemas.to_bytes(4, "big") + b"\x0e")

    async def value(one: Browser, user: str) -> dict[str, Any]:
        await log_in(one, user)
        found: dict[str, Any] = (await one.json("messages", topic="open"))["records"][0]["value"]
        return found

    async def visit(one: Browser) -> None:
        seen = await value(one, "root")
        assert (seen["kind"], json.loads(seen["text"])) == ("schema", {"id": 7})
        hidden = await value(Browser(one.app), "alice")
        assert hidden["kind"] == "bytes", "what the console has decoded for one user it does not show to another"
        assert "not decoded: schema" in hidden["note"]
        assert "404" in hidden["note"]
        unknown = await value(Browser(one.app), "dave")
        assert unknown["kind"] == "bytes"
        assert "does not take the password of User:dave" in unknown["note"]
        search = (await one.json("messages", topic="open", where="value.id = 7"))["search"]
        told = [each async for each in one.events(f"/live/search?id={search}")]
        assert any(name == "rows" for name, _ in told)

    browsing(beside.setting("--login", "PLAIN"), visit)


def test_a_user_whom_the_registry_and_the_worker_do_not_know_reads_so_on_every_page(
    beside: Beside, schemas: int, connector: str
) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one, "dave")
        servers = {"schemas": ("the schema registry", beside.registry), "connectors": ("the worker", beside.worker)}
        for page, (name, url) in servers.items():
            sentence = f"{name} at {url} does not take the password of User:dave: "
            assert sentence in unescape(await one.page(page))
            found = await one.json(page)
            assert found["list"]["rows"] == []
            assert [each.startswith(sentence) for each in found["faults"]] == [True]
        for page, given in (("schema", {"subject": "parcels-value"}), ("connector", {"name": connector})):
            assert "of User:dave" in unescape(await one.page(page, 403, **given))
            answer = await one.ask("GET", f"/api/v1/{page}?{urlencode(given)}")
            assert answer.status == 403, "401 would say that nobody has logged in to the console"
        assert "of User:dave" in await one.post("connector", 403, name=connector, verb="pause", confirm="yes")

    browsing(beside.setting("--login", "PLAIN"), visit)


def test_connectors_are_those_that_the_user_may_see_and_change(beside: Beside, connector: str) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one, "bob")
        assert [row["name"] for row in (await one.json("connectors"))["list"]["rows"]] == [connector]
        found = await one.json("connector", name=connector)
        assert (found["state"], found["config"]) == ("RUNNING", [])
        right = "User:bob has no right to describe-configs on group connect-alice.in [GROUP_AUTHORIZATION_FAILED]"
        sentence = f"the worker at {beside.worker} does not let User:bob do this: {right}"
        assert found["faults"] == [sentence]
        assert sentence in unescape(await one.page("connector", name=connector))
        refused = await one.post("connector", 403, name=connector, verb="pause", confirm="yes")
        assert "does not let User:bob do this: User:bob has no right to read on group connect-alice.in" in refused
        assert beside.state(connector) == "RUNNING"

        carol = Browser(one.app)
        await log_in(carol, "carol")
        assert (await carol.json("connectors"))["list"]["rows"] == []
        await carol.page("connector", 404, name=connector)

        alice = Browser(one.app)
        await log_in(alice, "alice")
        found = await alice.json("connector", name=connector)
        assert {"name": "topic", "value": "lines"} in found["config"]
        assert found["faults"] == []
        assert "pause was taken" in await alice.confirm("connector", name=connector, verb="pause")

    browsing(beside.setting("--login", "PLAIN"), visit)
    until(lambda: beside.state(connector) == "PAUSED")
    beside.ask("root", "PUT", f"{beside.worker}/connectors/{connector}/resume")
    until(lambda: beside.state(connector) == "RUNNING")


def test_a_password_stands_in_no_page_cookie_or_log(
    beside: Beside, schemas: int, connector: str, caplog: pytest.LogCaptureFixture
) -> None:
    shown = base64.b64encode(b"alice:alice").decode()

    async def visit(one: Browser) -> None:
        await log_in(one, "alice")
        pages: list[tuple[str, dict[str, object]]] = [
            ("", {}), ("schemas", {}), ("schema", {"subject": "parcels-value"}), ("connectors", {}),
            ("connector", {"name": connector}), ("messages", {"topic": "open"}),
        ]  # fmt: skip
        seen = [await one.page(page, **given) for page, given in pages]
        seen += [await one.post("connector", name=connector, verb="pause"), one.cookie, caplog.text]
        seen += [await one.post("schema-register", 403, subject="secret-value", schema=json.dumps(NEXT), confirm="yes")]
        for text in seen:
            assert shown not in text
            assert "alice:alice" not in text

    with caplog.at_level(logging.DEBUG):
        browsing(beside.setting("--login", "PLAIN"), visit)
    assert shown not in caplog.text


def test_without_logins_the_environment_names_the_user(
    beside: Beside, schemas: int, connector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "root"}
    client = beside.folder / "console.properties"
    client.write_text("".join(f"{name}={text}\n" for name, text in {**reading, "sasl.password": "root"}.items()))

    async def nobody(one: Browser) -> None:
        [fault] = (await one.json("schemas"))["faults"]
        assert f"{beside.registry} answers 401 (" in fault
        assert f"set {USER} and {PASSWORD}, or {TOKEN}, in the console's environment" in fault
        [fault] = (await one.json("connectors"))["faults"]
        assert f"set {asking.USER} and {asking.PASSWORD}, or {asking.TOKEN}, in the console's environment" in fault

    async def root(one: Browser) -> None:
        assert len((await one.json("schemas"))["list"]["rows"]) >= 2
        assert [row["name"] for row in (await one.json("connectors"))["list"]["rows"]] == [connector]

    browsing(beside.setting("--command-config", str(client)), nobody)
    for name in (USER, PASSWORD, asking.USER, asking.PASSWORD):
        monkeypatch.setenv(name, "root")
    browsing(beside.setting("--command-config", str(client)), root)


def test_the_environment_lends_nobody_who_logs_in_the_rights_of_another(
    beside: Beside, schemas: int, connector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one, "carol")
        assert (await one.json("schemas"))["list"]["rows"] == []
        assert (await one.json("connectors"))["list"]["rows"] == []

    for name in (USER, PASSWORD, asking.USER, asking.PASSWORD):
        monkeypatch.setenv(name, "root")
    setting = beside.setting("--login", "PLAIN")
    browsing(setting, visit)
    assert warnings(setting) == [
        f"{name} does not count: users show their own credentials" for name in (USER, asking.USER)
    ]


def elsewhere(server: RegistryServer) -> str:
    """The URL of a server under a name that is not one of loopback, though it is reached on this machine."""
    return f"http://0.0.0.0:{urlsplit(server.url).port}"


def test_no_password_goes_to_another_machine_by_plain_http(beside: Beside) -> None:
    def shown(*options: str) -> tuple[list[str], set[str | None]]:
        faults: list[str] = []

        async def visit(one: Browser) -> None:
            await log_in(one, "alice")
            for page in ("schemas", "connectors"):
                server.faults = [401] * 2
                faults.extend((await one.json(page))["faults"])

        server.requests.clear()
        url = elsewhere(server)
        words = ["-b", beside.bootstrap, "--login", "PLAIN", "--registry", url, "--connect", url, *options]
        setting = setting_of(COMMAND.parser.parse(words))
        browsing(setting, visit)
        assert len(server.requests) == 3
        faults.extend(warnings(setting))
        return faults, {authorization for _, _, authorization in server.requests}

    with RegistryServer() as server:
        url, alone = elsewhere(server), "by https alone; give its https URL, or start the console with --insecure"
        faults, sent = shown()
        assert sent == {None}
        beginnings = (f"the schema registry at {url}", f"the worker at {url}", f"--registry {url}", f"--connect {url}")
        assert [fault.startswith(each) for fault, each in zip(faults, beginnings, strict=True)] == [True] * 4
        assert all(alone in fault for fault in faults)
        faults, sent = shown("--insecure")
        assert sent == {"Basic " + base64.b64encode(b"alice:alice").decode()}
        assert [f"{name} at {url} does not take the password of User:alice: ordered" for name in
                ("the schema registry", "the worker")] == faults  # fmt: skip


def test_a_credential_of_the_environment_is_held_back_alike(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://registry.example.com:8081"
    words = ["-b", beside.bootstrap, "--registry", url, "--connect", url]
    assert warnings(setting_of(COMMAND.parser.parse(words))) == []
    monkeypatch.setenv(asking.USER, "root")
    monkeypatch.setenv(TOKEN, "abc")
    said = warnings(setting_of(COMMAND.parser.parse(words)))
    assert [each.partition(": ")[0] for each in said] == [f"--registry {url}", f"--connect {url}"]
    assert warnings(setting_of(COMMAND.parser.parse([*words, "--insecure"]))) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--insecure"], "--insecure is about credentials for a registry and for workers"),
        (["--insecur"], "there is no option --insecur; did you mean --insecure?"),
        (["--connect", "http://me:hunter2@host:8083"], "--connect: its URL must not hold a user or a password"),
        (["--connect", "host:8083"], "--connect: 'host:8083' is not the URL of a server"),
        (["--streams", "http://"], "--streams: 'http://' is not the URL of a server"),
        (["--registry", "http://me:hunter2@host:8081"], "--registry must not hold credentials"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "-b", "127.0.0.1:1", "--port", "0", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "hunter2" not in error


def test_a_proxy_that_refuses_with_a_page_is_a_refusal_too(beside: Beside) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one, "alice")
        for page in ("schemas", "connectors"):
            [fault] = (await one.json(page))["faults"]
            assert "does not let User:alice do this" in fault

    async def proxy(request: Request) -> Response:
        return Response(b"<html>", "text/html", 403)

    bound = listening("127.0.0.1", 0)
    with bound, LoopThread("proxy", lambda: serving(proxy, bound)):
        url = url_at("127.0.0.1", bound)
        words = ["-b", beside.bootstrap, "--login", "PLAIN", "--registry", url, "--connect", url]
        browsing(setting_of(COMMAND.parser.parse(words)), visit)


def test_a_user_whose_name_http_cannot_write_is_refused_by_the_console() -> None:
    async def asked() -> None:
        desk = Desk(setting, user="eve:x", password="secret")
        try:
            with pytest.raises(RegistryRefusal, match="is not asked: a user whose name has a colon"):
                desk.registry().ask("GET", "/subjects")
            with pytest.raises(LinkRefused, match="is not asked: a user whose name has a colon"):
                await desk.workers[0].ask("GET", "connectors")
        finally:
            await desk.close()

    with RegistryServer() as server:
        words = ["-b", "127.0.0.1:1", "--login", "PLAIN", "--registry", server.url, "--connect", server.url]
        setting = setting_of(COMMAND.parser.parse(words))
        asyncio.run(asked())
        assert server.requests == []
