"""Callers of Connect and their rights: each call against the rows of its route, on a worker without topics."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.connect.rest.fake_worker import FakeWorker

from ottla.access.rules import Rules
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.plugins.base import SourceConnector
from ottla.connect.plugins.known import SHIPPED
from ottla.connect.rest import calls, rights
from ottla.connect.rest.app import ROUTES, ConnectApp
from ottla.connect.rest.rights import ConnectRight
from ottla.jobs.caller import UNLIMITED, HttpCaller
from ottla.kernel.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceKind
from ottla.web.exchange import HttpError, Request

Given = tuple[Operation, ResourceKind, str]
TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
SOURCE = {"connector.class": "FileStreamSource", "file": "/in", "topic": "lines"}
SINK = {"connector.class": "FileStreamSink", "file": "/out", "topics": "lines, more"}
OPEN = {"", "health", "connectors/{name}/tasks", "connectors/{name}/fence", "connector-plugins",
        "connector-plugins/{name}/config"}  # fmt: skip
"""The paths with a call that takes no right: it tells nothing of connectors, or is refused to everybody."""
CALLS = [(method, path) for path, methods in ROUTES.items() for method in methods]
LIMITED = [(method, path) for method, path in CALLS if ROUTES[path][method].rights]
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "connectors"): {"name": "new", "config": SOURCE},
    ("PUT", "connectors/{name}/config"): SOURCE,
    ("PATCH", "connectors/{name}/config"): {"batch.size": "7"},
    ("PATCH", "connectors/{name}/offsets"): {
        "offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 1}}]
    },
    ("PUT", "connector-plugins/{name}/config/validate"): {"name": "new", **SOURCE},
    ("PUT", "admin/loggers/{name}"): {"level": "INFO"},
}
LOGGER = logging.getLogger("tests.of.rights").name
WRITES_LINES: Given = (Operation.WRITE, TOPIC, "lines")


class Asking:
    """Calls to a worker, first as somebody without limits."""

    def __init__(self) -> None:
        self.worker, self.caller = FakeWorker(), UNLIMITED
        self.app = ConnectApp(self.worker, self._caller_of)

    async def _caller_of(self, _request: Request) -> HttpCaller:
        return self.caller

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        content = b"" if body is None else json.dumps(body).encode()
        request = Request(method, f"/{path}", query, {"content-type": "application/json"}, content)
        try:
            answer = asyncio.run(self.app(request))
        except HttpError as refusal:
            answer = refusal.response()
        assert isinstance(answer.body, bytes)
        is_json = answer.media_type == "application/json"
        return answer.status, json.loads(answer.body) if answer.body and is_json else answer.body.decode()

    def be(self, *given: Given, prefixed: bool = False) -> None:
        """Be bob, with these rights alone."""
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        acls = [
            Acl(resource, name, pattern, "User:bob", "*", operation, Permission.ALLOW)
            for operation, resource, name in given
        ]
        self.caller = HttpCaller("User:bob", "127.0.0.1", Rules(acls))

    def shown(self) -> str:
        """All that calls may change."""
        configs, statuses = self.worker.configs, self.worker.statuses
        connectors = [configs.get(name) for name in configs.names]
        return str((connectors, configs.wishes, statuses.all_topics(), self.worker.sink_offsets))


@pytest.fixture
def ask() -> Asking:
    """A worker with a source that runs, a stopped sink, and a source of somebody else."""
    asking = Asking()
    for name, config in (("mine", SOURCE), ("out", SINK), ("theirs", SOURCE)):
        assert asking("PUT", f"connectors/{name}/config", config)[0] == 201
    asking("PUT", "connectors/out/stop")
    return asking


def filled(path: str, name: str) -> str:
    """A path with its names; loggers and plugins have their own."""
    first = path.split("/", maxsplit=1)[0]
    return path.format(name={"connectors": name, "admin": LOGGER}.get(first, "FileStreamSource"), task="0")


def given(some: Iterable[ConnectRight], name: str) -> Iterator[Given]:
    for right in some:
        if right not in rights.WORK:
            where = CLUSTER_NAME if right.resource is CLUSTER else f"connect-{name}"
            yield right.operation, right.resource, where


def prepared(ask: Asking, method: str, path: str) -> str:
    """The connector that a call is about, in a state in which it can be done."""
    if path == "connectors/{name}/offsets" and method != "GET":
        ask("PUT", "connectors/mine/stop")
    return "new" if (method, path) == ("POST", "connectors") or path.endswith("validate") else "mine"


def test_only_what_tells_nothing_of_connectors_takes_no_right() -> None:
    free = [(method, path) for method, path in CALLS if not ROUTES[path][method].rights]
    assert {path for _, path in free} == OPEN
    assert [
        path for method, path in free if method not in ("GET",) and ROUTES[path][method].do is not calls.internal
    ] == []


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_caller_with_the_rights_of_the_rows_is_served(ask: Asking, method: str, path: str) -> None:
    name = prepared(ask, method, path)
    ask.be(*given(ROUTES[path][method].rights, name), WRITES_LINES)
    status, found = ask(method, filled(path, name), BODIES.get((method, path)))
    assert status == 400 if ROUTES[path][method].do is calls.internal else status < 300, found


@pytest.mark.parametrize(("method", "path"), LIMITED)
def test_a_caller_without_a_right_is_answered_as_its_row_says_and_changes_nothing(
    ask: Asking, method: str, path: str
) -> None:
    first, name = ROUTES[path][method].rights[0], prepared(ask, method, path)
    before = ask.shown()
    ask.be()
    status, found = ask(method, filled(path, name), BODIES.get((method, path)))
    if first is rights.LISTED:
        assert (status, found) == (200, [])
    else:
        wanted = 404 if first.hides else 403
        assert (status, found["error_code"]) == (wanted, wanted)
    assert ask.shown() == before


@pytest.mark.parametrize(("method", "path"), LIMITED)
def test_a_caller_who_sees_the_connector_is_told_which_right_is_missing(ask: Asking, method: str, path: str) -> None:
    first, name = ROUTES[path][method].rights[0], prepared(ask, method, path)
    before = ask.shown()
    ask.be((Operation.DESCRIBE, GROUP, "connect-mine"))
    status, found = ask(method, filled(path, name), BODIES.get((method, path)))
    if first.operation is Operation.DESCRIBE and first.resource is GROUP:
        assert status == 200
        return
    word, kind = first.operation.name.lower().replace("_", "-"), first.resource.name
    where = CLUSTER_NAME if first.resource is CLUSTER else f"connect-{name}"
    sentence = f"User:bob has no right to {word} on {kind.lower()} {where} [{kind}_AUTHORIZATION_FAILED]"
    assert (status, found["message"]) == (403, sentence)
    assert ask.shown() == before


@pytest.mark.parametrize(("method", "path"), [each for each in LIMITED if "connectors/{name}" in each[1]])
def test_what_is_hidden_is_answered_like_what_is_not_there(ask: Asking, method: str, path: str) -> None:
    ask.be((Operation.ALL, GROUP, "connect-mine"), WRITES_LINES)
    there, absent = (ask(method, filled(path, name), BODIES.get((method, path))) for name in ("theirs", "nobodys"))
    assert json.dumps(there).replace("theirs", "nobodys") == json.dumps(absent)
    assert there[0] in (403, 404)


def test_lists_have_what_the_caller_sees_and_configurations_take_a_right_of_their_own(ask: Asking) -> None:
    ask.be((Operation.READ, GROUP, "connect-mine"))
    assert ask("GET", "connectors") == (200, ["mine"])
    shown = ask("GET", "connectors?expand=info&expand=status")[1]
    assert (list(shown), list(shown["mine"])) == (["mine"], ["status"])
    ask.be((Operation.ALL, GROUP, "connect-"), prefixed=True)
    assert list(ask("GET", "connectors?expand=info")[1]["theirs"]) == ["info"]


CONFIGURING: Given = (Operation.ALTER_CONFIGS, GROUP, "connect-new")
READING: Given = (Operation.READ, GROUP, "connect-new")
TOPICS: tuple[Given, ...] = ((Operation.READ, TOPIC, "lines"), (Operation.READ, TOPIC, "more"))


@pytest.mark.parametrize(
    ("config", "given", "lacking"),
    [
        (SOURCE, [WRITES_LINES], None),
        (SOURCE, [], "write on topic lines"),
        (SOURCE | {"topic": " lines"}, [WRITES_LINES], "write on topic names of any kind"),
        (SOURCE | {"topic": "${env:HOME}"}, [WRITES_LINES], "write on topic names of any kind"),
        (SOURCE | {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
                   "transforms.r.regex": "lines", "transforms.r.replacement": "salaries"},
         [WRITES_LINES], "write on topic names of any kind"),
        (SOURCE | {"errors.deadletterqueue.topic.name": "letters"}, [WRITES_LINES], "write on topic letters"),
        (SOURCE | {"producer.override.transactional.id": "t"}, [WRITES_LINES], "write on transactional id t"),
        (SINK, [READING, *TOPICS], None),
        (SINK, [*TOPICS], "read on group connect-new"),
        (SINK, [READING, TOPICS[0]], "read on topic more"),
        (SINK | {"consumer.override.group.id": "other"}, [READING, *TOPICS], "read on group other"),
        ({"connector.class": "FileStreamSink", "file": "/out", "topics.regex": "l.*"}, [READING, *TOPICS],
         "read on topic names of any kind"),
        ({"connector.class": "FileStreamSink", "file": "/out", "topics.regex": "l.*"},
         [READING, (Operation.READ, TOPIC, "*")], None),
    ],
)  # fmt: skip
def test_a_connector_does_nothing_that_its_caller_may_not(
    ask: Asking, config: dict[str, str], given: list[Given], lacking: str | None
) -> None:
    ask.worker.view = WorkerView(resolve=lambda text: text.replace("${env:HOME}", "salaries"))
    for call in (("POST", "connectors", {"name": "new", "config": config}), ("PUT", "connectors/new/config", config)):
        ask.be(CONFIGURING, *given)
        status, found = ask(*call)
        if lacking is None:
            assert status < 300, found
        else:
            assert (status, found["message"].split(" [")[0]) == (403, f"User:bob has no right to {lacking}")
            assert ask.worker.configs.get("new") is None
            assert "salaries" not in found["message"]
        ask.caller = UNLIMITED
        ask("DELETE", "connectors/new")


def test_a_patch_is_judged_by_the_whole_configuration(ask: Asking) -> None:
    ask.be((Operation.ALL, GROUP, "connect-mine"), WRITES_LINES)
    assert ask("PATCH", "connectors/mine/config", {"batch.size": "7"})[0] == 200
    status, found = ask("PATCH", "connectors/mine/config", {"topic": "salaries"})
    assert (status, found["message"].split(" [")[0]) == (403, "User:bob has no right to write on topic salaries")
    ask.be((Operation.ALL, GROUP, "connect-mine"))
    assert ask("PATCH", "connectors/mine/config", {"batch.size": "8"})[0] == 403
    known = ask.worker.configs.get("mine")
    assert known is not None
    assert known.config["batch.size"] == "7"


def test_offsets_of_a_sink_are_set_for_topics_that_its_caller_reads(ask: Asking) -> None:
    def sent(topic: str) -> tuple[int, Any]:
        place = {"kafka_topic": topic, "kafka_partition": 0}
        changes = {"offsets": [{"partition": place, "offset": {"kafka_offset": 1}}]}
        return ask("PATCH", "connectors/out/offsets", changes)

    ask.be((Operation.READ, GROUP, "connect-out"), (Operation.READ, TOPIC, "lines"))
    assert sent("lines")[0] == 200
    assert sent("salaries")[0] == sent("nosuch")[0] == 403


def test_sources_tell_their_topic_by_an_option_that_they_have() -> None:
    told = {each.java_class: each.topic_option for each in SHIPPED if issubclass(each, SourceConnector)}
    assert "topic" in told.values()
    for each in SHIPPED:
        if issubclass(each, SourceConnector) and each.topic_option:
            assert each.topic_option in [option.name for option in each.all_options()]


def test_a_prefix_of_topics_takes_a_right_to_all_that_begin_so() -> None:
    jdbc = {"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "topic.prefix": "shop."}
    acl = Acl(TOPIC, "shop.", PatternType.PREFIXED, "User:bob", "*", Operation.WRITE, Permission.ALLOW)
    rights.require_work(HttpCaller("User:bob", "", Rules([acl])), "j", jdbc)
    with pytest.raises(rights.CallRefused, match=r"names that begin with 'shop\.'"):
        rights.require_work(HttpCaller("User:bob", "", Rules([acl._replace(name="shop.a")])), "j", jdbc)
