"""Foreign pages, markup in names and records, limits of what a console shows and changes, logins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.console.beside import audit_log
from tests.console.browsing import Browser, browsing, text_of
from tests.registry_server import RegistryServer

from ottla.client import Admin, CommittedOffset, Producer, TopicPartition
from ottla.client.registry_client import RegistryClient
from ottla.console.app import CHANGES, PAGES
from ottla.console.connectors import covered
from ottla.console.desk import ConsoleSetting
from ottla.console.links import LinkRefused
from ottla.console.masks import STARS, Masks, mask
from ottla.console.view import FORM
from ottla.kernel.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceKind
from ottla.testing import TestBroker
from ottla.web.exchange import Request

BOSS = Acl(
    ResourceKind.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, "User:boss", "*", Operation.DESCRIBE, Permission.ALLOW
)

MARKUP = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


class Worker:
    """A worker of Connect: answers by path; keeps what it was asked to change."""

    url = "http://worker:8083"

    def __init__(self, name: str, trace: str) -> None:
        self.name, self.trace = name, trace
        self.changed: list[tuple[str, tuple[str, ...], str]] = []

    async def ask(self, method: str, *path: str, query: str = "", body: object = None) -> Any:
        if method != "GET":
            self.changed.append((method, path, query))
            return None
        task = {"id": 0, "state": "FAILED", "worker_id": "w", "trace": self.trace}
        status = {"connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": [task], "type": "sink"}
        config = {"topics": "orders", "connection.password": "hunter2", "note": MARKUP}
        answers: dict[tuple[str, ...], Any] = {
            ("connectors",): {self.name: {"status": status}},
            ("connectors", self.name, "status"): status,
            ("connectors", self.name, "config"): config,
            ("connectors", self.name, "topics"): {self.name: {"topics": ["orders"]}},
        }
        if path not in answers:
            raise LinkRefused(404, f"no {path}")
        return answers[path]


def of(broker: TestBroker, **options: Any) -> ConsoleSetting:
    return ConsoleSetting(broker.bootstrap_servers, **options)


def test_a_name_of_another_site_is_refused(console_broker: TestBroker) -> None:
    async def visit(one: Browser) -> None:
        for address in ("/", "/api/v1/topics", "/static/console.css", "/live/tail?topic=orders"):
            assert (await one.ask("GET", address, host="evil.example")).status == 403
        assert (await one.ask("GET", "/", host="127.0.0.1:8080")).status == 200

    browsing(of(console_broker), visit)


def test_a_change_needs_the_token_of_a_page_and_a_page_of_this_console(console_broker: TestBroker) -> None:
    async def visit(one: Browser) -> None:
        fields = {"topic": "stolen", "confirm": "yes"}
        for token in ("", "wrong", "ü"):
            body = urlencode({**fields, "token": token}).encode()
            assert (await one.ask("POST", "/change/topic-create", body, content_type=FORM)).status == 403
        desk = await one.app.sessions.desk(None)  # type: ignore[arg-type]
        assert desk is not None
        body = urlencode({**fields, "token": desk.token}).encode()
        for headers in ({"sec_fetch_site": "cross-site"}, {"origin": "http://evil.example"}):
            assert (await one.ask("POST", "/change/topic-create", body, content_type=FORM, **headers)).status == 403
        assert (await one.ask("POST", "/change/topic-create", body, content_type="text/plain")).status == 415
        assert (await one.ask("GET", "/change/topic-create?" + body.decode())).status == 405
        assert "stolen" not in await one.page("topics")

    browsing(of(console_broker), visit)


def test_a_console_for_reading_changes_nothing_and_shows_no_form_that_would(console_broker: TestBroker) -> None:
    worker: Any = Worker("c", "")

    async def visit(one: Browser) -> None:
        for name in CHANGES:
            assert "read-only" in await one.post(name, 403, topic="orders", group="g", confirm="yes")
        for page, given in (("topics", {}), ("topic", {"name": "orders"}), ("produce", {"topic": "orders"}),
                            ("connector", {"name": "c"}), ("messages", {"topic": "orders"})):  # fmt: skip
            assert "/change/" not in await one.page(page, **given), page

    browsing(of(console_broker, read_only=True, connect=(worker,)), visit)
    assert worker.changed == []


def test_markup_is_text_on_every_page(console_broker: TestBroker) -> None:
    """Names of all kinds, keys, values, headers, traces and options are never taken for markup."""
    worker: Any = Worker(MARKUP, MARKUP)
    topic = console_broker.new_topic_name("markup.errors")
    with Admin(console_broker.bootstrap_servers) as admin, Producer(console_broker.bootstrap_servers) as producer:
        admin.create_topic(topic, 1)
        admin.commit_offsets(MARKUP, {TopicPartition(topic, 0): CommittedOffset(0)})
        causes = [("ottla.topic", MARKUP), ("ottla.reason", MARKUP)]
        producer.produce(topic, json.dumps({"a": MARKUP}), MARKUP, headers=[(MARKUP, MARKUP), *causes])
    with Producer(console_broker.bootstrap_servers, transactional_id=MARKUP) as producer:
        producer.init_transactions()

    async def visit(one: Browser, registry: RegistryServer) -> None:
        pages: list[tuple[str, dict[str, object]]] = [
            ("", {}), ("topics", {"q": MARKUP}), ("groups", {}), ("group", {"name": MARKUP}),
            ("topic", {"name": topic}), ("messages", {"topic": topic}),
            ("messages", {"topic": topic, "text": MARKUP}), ("connectors", {}),
            ("connector", {"name": MARKUP}), ("letters", {"topic": topic, "to": "orders"}), ("transactions", {}),
            ("transaction", {"id": MARKUP}), ("produce", {"topic": topic, "value": MARKUP, "key": MARKUP}),
        ]  # fmt: skip
        for page, given in pages:
            answer = await one.ask("GET", f"/{page}?{urlencode(given)}")
            html = text_of(answer)
            assert answer.status == 200, html
            assert html.count("<script") == 1, page
            assert "<img" not in html, page
            policy = dict(answer.headers)["Content-Security-Policy"]
            assert "default-src 'self'" in policy
            assert "unsafe" not in policy
            assert " style=" not in html and "<style" not in html, "the policy would not let it count"
        wrong = await one.ask("GET", "/topic?" + urlencode({"name": MARKUP}))
        assert (wrong.status, text_of(wrong).count("<script")) == (404, 1)
        asked = await one.post("group-delete", group=MARKUP)
        assert asked.count("Delete the group") == 3

    with RegistryServer() as registry:
        setting = of(console_broker, connect=(worker,), registry=RegistryClient((registry.url,)))
        browsing(setting, lambda one: visit(one, registry))


def test_a_download_is_never_shown_as_a_page(console_broker: TestBroker) -> None:
    async def visit(one: Browser) -> None:
        headers = dict((await one.ask("GET", "/value?topic=orders&partition=0&offset=0")).headers)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"] == "sandbox"

    browsing(of(console_broker), visit)


def test_masked_fields_leave_by_no_door(console_broker: TestBroker) -> None:
    async def visit(one: Browser) -> None:
        found = await one.json("messages", topic="orders", count=500)
        assert {json.loads(each["value"]["text"])["name"] for each in found["records"]} == {STARS}
        assert "anna" not in await one.page("messages", topic="orders", count=500)
        search = (await one.json("messages", topic="orders", text="anna"))["search"]
        told = [each async for each in one.events(f"/live/search?id={search}")]
        assert [name for name, _ in told if name == "rows"] == []
        lines = await one.ask("GET", "/export?topic=orders&where=offset+%3E%3D+0")
        assert not isinstance(lines.body, bytes)
        exported = b"".join([piece async for piece in lines.body])
        assert (b"anna" in exported, exported.count(STARS.encode())) == (False, 3000)
        assert (await one.ask("GET", "/value?topic=orders&partition=0&offset=0")).status == 403

    browsing(of(console_broker, masks=Masks([mask("ord*:value.name")])), visit)


def test_a_console_without_data_shows_no_record(console_broker: TestBroker) -> None:
    async def visit(one: Browser) -> None:
        for page in ("messages", "export", "letters", "live/tail", "value"):
            address = f"/{page}?topic=orders" + ("&partition=0&offset=0" if page == "value" else "")
            answer = await one.ask("GET", address)
            assert (answer.status, "--no-data" in text_of(answer)) == (403, True), address
        assert "/messages" not in await one.page("topic", name="orders")

    browsing(of(console_broker, shows_records=False), visit)


def test_unknown_parameters_are_refused_with_the_nearest_one(console_broker: TestBroker) -> None:
    async def visit(one: Browser) -> None:
        assert "topic" in await one.page("messages", 400, topik="orders")
        assert "did you mean newest" in await one.page("messages", 400, topic="orders", **{"from": "newst"})
        assert "q is given 2 times" in text_of(await one.ask("GET", "/topics?q=a&q=b"))
        assert "there are 0 to 2" in await one.page("messages", 400, topic="orders", partition=7)

    browsing(of(console_broker), visit)
    assert set(PAGES) & {"login", "change"} == set()


def test_connectors_are_changed_after_the_question(console_broker: TestBroker) -> None:
    worker: Any = Worker("my sink", "java.lang.X: at")

    async def visit(one: Browser) -> None:
        assert "java.lang.X: at" in await one.page("connector", name="my sink")
        assert "hunter2" not in await one.page("connector", name="my sink")
        question = await one.post("connector", name="my sink", verb="restart", task=0)
        assert "ottla connect restart 'my sink' --url http://worker:8083 --task 0" in question
        assert worker.changed == []
        await one.post("connector", confirm="yes", name="my sink", verb="restart", task=0)
        await one.confirm("connector", name="my sink", verb="restart")
        await one.confirm("connector", name="my sink", verb="pause")
        await one.confirm("connector", name="my sink", verb="delete")
        await one.post("connector", 400, name="my sink", verb="destroy")
        await one.post("connector", 404, name="other", verb="pause")
        await one.page("connector", 404, name="my sink", worker=1)

    browsing(of(console_broker, connect=(worker,)), visit)
    assert worker.changed == [
        ("POST", ("connectors", "my sink", "tasks", "0", "restart"), ""),
        ("POST", ("connectors", "my sink", "restart"), "?includeTasks=true"),
        ("PUT", ("connectors", "my sink", "pause"), ""),
        ("DELETE", ("connectors", "my sink"), ""),
    ]


def test_secrets_of_connectors_are_covered_and_references_are_not() -> None:
    assert covered("connection.password", "x") == "••••"
    assert covered("aws.secret.access.key", "x") == "••••"
    assert covered("connection.password", "${file:/s:p}") == "${file:/s:p}"
    assert covered("topics", "x") == "x"


def test_users_log_in_as_users_of_the_brokers(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    options = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": module,
        "connection.failed.authentication.delay.ms": "1",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    path = tmp_path / "audit.log"
    audit_log(path, "refused")

    async def log_in(one: Browser, user: str, password: str) -> int:
        body = urlencode({"user": user, "password": password}).encode()
        return (await one.ask("POST", "/login", body, content_type=FORM)).status

    async def visit(one: Browser) -> None:
        assert (await one.ask("GET", "/topics")).status == 303
        assert (await one.ask("GET", "/api/v1/topics")).status == 401
        assert (await one.ask("POST", "/change/topic-create", b"topic=x", content_type=FORM)).status == 401
        assert await log_in(one, "anna", "wrong") == 403
        assert await log_in(one, "", "") == 400
        assert (await one.ask("GET", "/topics")).status == 303
        assert await log_in(one, "anna", "her secret") == 303
        assert "Log out anna" in await one.page("topics")
        await one.confirm("topic-create", topic="hers")
        assert (await one.json("audit"))["lines"] == 1
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_acls([BOSS])
        assert "refused" not in await one.page("audit", 403), "the log tells of others: it is not for all who log in"
        first, old = Browser(one.app), one.cookie
        first.cookie = "ottla_console=guessed"
        assert (await first.ask("GET", "/topics")).status == 303
        desk = await one.app.sessions.desk(Request("GET", "/", "", {"cookie": old}))
        assert desk is not None
        body = urlencode({"token": desk.token}).encode()
        assert (await one.ask("POST", "/logout", b"", content_type=FORM)).status == 403
        assert (await one.ask("POST", "/logout", body, content_type=FORM)).status == 303
        one.cookie = old
        assert (await one.ask("GET", "/topics")).status == 303, "the session is over, whoever kept its cookie"

    with TestBroker(options) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.set_password("anna", "her secret", mechanism="SCRAM-SHA-256")
        host, port = broker._running().addresses["SASL_PLAINTEXT"]
        browsing(ConsoleSetting(f"{host}:{port}", login="SCRAM-SHA-256", audit_log=(str(path),)), visit)
        with Admin(broker.bootstrap_servers) as admin:
            assert "hers" in admin.list_topics()


def test_quotas_are_set_listed_and_taken_away() -> None:
    async def visit(one: Browser) -> None:
        given = {"user": "anna", "default-client-id": "yes", "quota": "producer_byte_rate", "value": "1000"}
        question = await one.post("quota-set", **given)
        assert "ottla quota set producer_byte_rate=1000 --user anna --default-client-id" in question
        assert "There is no such quota so far." in question
        assert (await one.json("quotas"))["list"]["rows"] == []
        await one.post("quota-set", confirm="yes", **given)
        [row] = (await one.json("quotas"))["list"]["rows"]
        assert (row["entity"], row["quota"]) == ("user anna, default client-id", "producer_byte_rate")
        assert row["shown"] == "1000"
        assert "It is 1000 so far." in await one.post("quota-set", **{**given, "value": "2000"})
        of_all = {"default-ip": "yes", "quota": "connection_creation_rate", "value": "50"}
        await one.post("quota-set", confirm="yes", **of_all)
        for wrong in (
            {"value": "0"}, {"value": "nan"}, {"value": "many"}, {"value": "1.5"}, {"default-user": "yes"},
            {"ip": "10.0.0.1"}, {"quota": "connection_creation_rate"}, {"quota": "producer_byte_rates"},
            {"user": "", "default-client-id": ""},
        ):  # fmt: skip
            await one.post("quota-set", 400, **{**given, **wrong})
        await one.post("quota-unset", 400, **{**row["fields"], "quota": "consumer_byte_rate"})
        await one.post("quota-unset", 400, **{**row["fields"], "default-client-id": ""})
        words = "ottla quota unset producer_byte_rate --user anna --default-client-id"
        assert words in await one.post("quota-unset", **row["fields"])
        await one.confirm("quota-unset", **row["fields"])
        [left] = (await one.json("quotas"))["list"]["rows"]
        assert (left["entity"], left["value"]) == ("default ip", 50)

    with TestBroker() as broker:
        browsing(of(broker), visit)


def test_acls_are_granted_listed_and_revoked() -> None:
    options = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    async def visit(one: Browser) -> None:
        given = {"user": "anna", "operation": "read", "kind": "topic", "name": "orders-", "prefixed": "yes"}
        question = await one.post("acl-grant", **given)
        assert "ottla acl grant User:anna read --topic orders- --prefixed" in question
        assert (await one.json("users"))["list"]["rows"] == []
        await one.post("acl-grant", confirm="yes", **given)
        [row] = (await one.json("users"))["list"]["rows"]
        assert (row["principal"], row["operation"], row["resource"]) == ("User:anna", "read", "topic prefix orders-")
        await one.post("acl-grant", 400, **{**given, "kind": "group", "operation": "write"})
        await one.post("acl-grant", 400, **{**given, "name": "*"})
        await one.post("acl-revoke", 400, **{**row["fields"], "deny": "yes"})
        assert "ottla acl revoke User:anna read --topic orders- --prefixed" in await one.post(
            "acl-revoke", **row["fields"]
        )
        await one.confirm("acl-revoke", **row["fields"])
        assert (await one.json("users"))["list"]["rows"] == []

    with TestBroker(options) as broker:
        browsing(of(broker), visit)
