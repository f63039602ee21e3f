"""Callers and their rights: each call against the rows of its route, and nothing tells of a hidden subject."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from tests.registry.http_client import record

from ottla.access.rules import Rules
from ottla.jobs.caller import UNLIMITED, HttpCaller
from ottla.kernel.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceKind
from ottla.registry import rights
from ottla.registry.app import RegistryApp
from ottla.registry.calls import RegistryCall
from ottla.registry.decide import RegistryDecision
from ottla.registry.identity import guid
from ottla.registry.rights import RegistryRight, StatedCall, topic_of
from ottla.registry.routes import ROUTES
from ottla.registry.state import RegistryState
from ottla.web.exchange import Request

T = TypeVar("T")
Given = tuple[Operation, ResourceKind, str]
TOPIC, CLUSTER = ResourceKind.TOPIC, ResourceKind.CLUSTER
OPEN = {"", "schemas/types", "v1/metadata/id", "v1/metadata/version"}
"""The paths that take no right: they tell nothing of subjects."""
SCHEMA = {"schema": json.dumps(record("R", "x"))}
BODIES: dict[str, Any] = {"subjects": SCHEMA, "compatibility": SCHEMA, "config": {"compatibility": "FULL"},
                          "mode": {"mode": "READONLY"}}  # fmt: skip
"""By the beginning of the path."""
CALLS = [(method, path) for path, methods in ROUTES.items() for method in methods]
LIMITED = [(method, path) for method, path in CALLS if path not in OPEN]
LEAVING_OUT = (rights.LISTED, rights.HELD)


class StateRegistry:
    """A registry without a topic: what is decided counts at once."""

    cluster_id = "cluster"

    def __init__(self) -> None:
        self.state = RegistryState()

    async def fresh(self) -> None:
        """Nobody else writes."""

    async def write(self, decide: Callable[[RegistryState], RegistryDecision[T]]) -> T:
        decision = decide(self.state)
        for key, value in decision.records:
            self.state.apply(key, value)
        return decision.answer


class Asking:
    """Calls to a registry, first as somebody without limits."""

    def __init__(self) -> None:
        self.registry, self.caller = StateRegistry(), UNLIMITED
        self.app = RegistryApp(self.registry, self._caller_of)  # type: ignore[arg-type]

    async def _caller_of(self, _request: Request) -> HttpCaller:
        return self.caller

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        content = b"" if body is None else json.dumps(body).encode()
        answer = asyncio.run(self.app(Request(method, f"/{path}", query, {}, content)))
        assert isinstance(answer.body, bytes)
        return answer.status, json.loads(answer.body) if answer.body else None

    def register(self, subject: str, schema: Any, **more: Any) -> tuple[int, Any]:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self("POST", f"subjects/{subject}/versions", {"schema": text, **more})

    def be(self, *given: Given) -> None:
        """Be bob, with these rights alone."""
        acls = [
            Acl(resource, name, PatternType.LITERAL, "User:bob", "*", operation, Permission.ALLOW)
            for operation, resource, name in given
        ]
        self.caller = HttpCaller("User:bob", "127.0.0.1", Rules(acls))

    def shown(self) -> str:
        """All that calls may change."""
        state = self.registry.state
        settings = {scope: (state.own_settings(scope), state.own_mode(scope)) for scope in (None, *state.subjects)}
        versions = {name: state.versions(name, deleted=True) for name in state.subjects}
        return str((settings, versions, sorted(state.contexts)))


@pytest.fixture
def ask() -> Asking:
    """A registry with a subject of the topic t and its settings, one of the topic u, and an empty context."""
    asking = Asking()
    asking.register("t-value", record("R", "x"))
    asking.register("u-value", record("U", "x"))
    asking("PUT", "config/t-value", {"compatibility": "NONE"})
    asking("PUT", "mode/t-value", {"mode": "READWRITE"})
    asking.register(":.lab:t-value", record("R", "x"))
    for permanent in ("", "?permanent=true"):
        asking("DELETE", f"subjects/:.lab:t-value{permanent}")
    return asking


@dataclass(frozen=True)
class Names:
    """The names in paths."""

    topic: str
    number: str
    content: str = "00000000-0000-0000-0000-000000000000"

    def path(self, pattern: str) -> str:
        values = {"subject": f"{self.topic}-value", "version": "1", "id": self.number, "guid": self.content,
                  "context": ".lab"}  # fmt: skip
        return pattern.format(**values)

    def without(self, answer: object) -> str:
        """An answer without the names that it repeats."""
        text = json.dumps(answer).replace(self.content, "GUID").replace(f"Schema {self.number} ", "Schema ID ")
        return text.replace(f"{self.topic}-value", "SUBJECT").replace(f" {self.topic} ", " TOPIC ")


def names(ask: Asking, topic: str, number: int) -> Names:
    value = ask.registry.state.version(f"{topic}-value", 1)
    return Names(topic, str(number)) if value is None else Names(topic, str(number), guid(value.guid_bytes))


def body(method: str, path: str) -> Any:
    return BODIES[path.split("/", maxsplit=1)[0]] if method in ("POST", "PUT") else None


def rows(method: str, path: str) -> tuple[RegistryRight, ...]:
    """The rows that count for a call: a route for settings has those of subjects and those of all."""
    call = RegistryCall({"subject": "t-value"} if "{subject}" in path else {}, {}, {"schema": "x"})
    asked = StatedCall(RegistryState(), call)
    found = ROUTES[path][method].rights
    return tuple(right for right in found if right in LEAVING_OUT or list(right.names(asked)))


def given(some: Iterable[RegistryRight]) -> Iterator[Given]:
    for right in some:
        yield right.operation, right.resource, "t" if right.resource is TOPIC else CLUSTER_NAME


def test_only_what_tells_nothing_of_subjects_takes_no_right() -> None:
    assert {path for method, path in CALLS if not rows(method, path)} == OPEN


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_caller_with_the_rights_of_the_rows_is_served(ask: Asking, method: str, path: str) -> None:
    ask.be(*given(rows(method, path)))
    status, found = ask(method, names(ask, "t", 1).path(path), body(method, path))
    assert status in (200, 204), found


@pytest.mark.parametrize(("method", "path"), LIMITED)
def test_a_caller_without_a_right_is_answered_as_its_row_says_and_changes_nothing(
    ask: Asking, method: str, path: str
) -> None:
    first, before = rows(method, path)[0], ask.shown()
    ask.be()
    status, found = ask(method, names(ask, "t", 1).path(path), body(method, path))
    if first is rights.LISTED:
        assert (status, found) == (200, ["."] if path == "contexts" else [])
    else:
        assert str(status) == "404" if first.hides or first is rights.HELD else first.without
        assert found["error_code"] == (40403 if first is rights.HELD else 40401 if first.hides else 40301)
    assert ask.shown() == before


@pytest.mark.parametrize(("method", "path"), LIMITED)
def test_a_caller_who_sees_the_subject_is_told_which_right_is_missing(ask: Asking, method: str, path: str) -> None:
    first, before = rows(method, path)[0], ask.shown()
    ask.be((Operation.DESCRIBE, TOPIC, "t"))
    status, found = ask(method, names(ask, "t", 1).path(path), body(method, path))
    if first.operation is Operation.DESCRIBE:
        assert status == 200
        return
    assert (status, found["error_code"]) == (403, 40301)
    word, kind = first.operation.name.lower().replace("_", "-"), first.resource.name
    where = f"topic t [{kind}_" if first.resource is TOPIC else f"cluster {CLUSTER_NAME} [{kind}_"
    assert found["message"] == f"User:bob has no right to {word} on {where}AUTHORIZATION_FAILED]"
    assert ask.shown() == before


@pytest.mark.parametrize(("method", "path"), LIMITED)
def test_what_is_hidden_is_answered_like_what_is_not_there(ask: Asking, method: str, path: str) -> None:
    ask.be((Operation.ALL, TOPIC, "t"))
    hidden, missing = names(ask, "u", 2), names(ask, "v", 9)
    answers = [each.without(ask(method, each.path(path), body(method, path))) for each in (hidden, missing)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("parcels-value", "parcels"), ("parcels-key", "parcels"), (":.lab:parcels-value", "parcels"),
        ("com.example.Order", "com.example.Order"), ("parcels-com.example.Order", "parcels-com.example.Order"),
        ("a-key-value", "a-key"), ("-value", ""), (":.lab:", ""),
    ],
)  # fmt: skip
def test_the_topic_of_a_subject(subject: str, topic: str) -> None:
    assert topic_of(subject) == topic


def test_lists_have_what_the_caller_sees_and_no_more(ask: Asking) -> None:
    ask.register("t-key", '"int"')
    ask.register("u-key", '"int"')
    ask.be((Operation.READ, TOPIC, "t"))
    assert ask("GET", "subjects") == (200, ["t-key", "t-value"])
    assert [each["subject"] for each in ask("GET", "schemas")[1]] == ["t-key", "t-value"]
    assert ask("GET", "schemas/ids/3/subjects") == (200, ["t-key"])
    assert ask("GET", "schemas/ids/3/versions") == (200, [{"subject": "t-key", "version": 1}])
    assert ask("GET", "schemas/ids/2")[0] == 404
    assert ask("GET", "schemas/ids/3?subject=u-key")[1]["schema"] == '"int"', "the same schema, by the subject seen"
    assert ask("GET", "contexts") == (200, ["."])


def test_a_schema_is_found_by_the_subject_that_the_caller_sees_whichever_came_first(ask: Asking) -> None:
    ask.register("a-value", '"long"')
    ask.register("t-key", '"long"')
    text = guid(ask.registry.state.subjects["t-key"][1].guid_bytes)
    ask.be((Operation.DESCRIBE, TOPIC, "t"))
    assert ask("GET", f"schemas/guids/{text}")[1]["schema"] == '"long"'
    ask.be((Operation.DESCRIBE, TOPIC, "x"))
    assert ask("GET", f"schemas/guids/{text}")[0] == 404


def test_a_schema_may_refer_only_to_what_its_caller_sees_and_takes_along_what_it_refers_to(ask: Asking) -> None:
    schema = {"type": "record", "name": "Box", "fields": [{"name": "u", "type": "U"}]}
    refers = [{"name": "U", "subject": "u-value", "version": 1}]
    writer = (Operation.WRITE, TOPIC, "t")
    ask("PUT", "config/t-key", {"compatibility": "NONE"})
    ask.register("t-key", '"int"')
    missing = [{**refers[0], "subject": "v-value"}]
    ask.be(writer)
    status, found = ask.register("t-key", schema, references=refers)
    assert (status, found["error_code"]) == (422, 42201)
    other = ask.register("t-key", schema, references=missing)[1]
    assert found["message"].replace("u-value", "v-value") == other["message"]
    for path in ("subjects/t-key", "compatibility/subjects/t-key/versions"):
        text = json.dumps(schema)
        hidden = ask("POST", path, {"schema": text, "references": refers})
        absent = ask("POST", path, {"schema": text, "references": missing})
        assert json.dumps(hidden).replace("u-value", "v-value") == json.dumps(absent)
    ask.be(writer, (Operation.DESCRIBE, TOPIC, "u"))
    assert ask.register("t-key", schema, references=refers)[0] == 200
    ask.be(writer)
    assert "U" in ask("GET", "subjects/t-key/versions/latest?format=resolved")[1]["schema"]
    assert ask("GET", "subjects/u-value/versions/1")[0] == 404
    ask.be((Operation.READ, TOPIC, "u"))
    assert ask("GET", "subjects/u-value/versions/1/referencedby") == (200, [])


def test_an_alias_leads_nobody_to_a_subject_that_he_may_not_see(ask: Asking) -> None:
    ask("PUT", "config/t-value", {"alias": "u-value"})
    ask.be((Operation.ALL, TOPIC, "t"))
    assert ask("GET", "subjects/t-value/versions")[0] == 404
    assert ask("DELETE", "subjects/t-value")[0] == 404
    assert ask.register("t-value", '"int"')[0] == 403
    ask.be((Operation.ALL, TOPIC, "u"))
    assert ask("GET", "subjects/t-value/versions")[0] == 404, "the alias itself is hidden"
    ask.be((Operation.ALL, TOPIC, "u"), (Operation.ALL, TOPIC, "t"))
    assert ask("GET", "subjects/t-value/versions") == (200, [1])


def test_settings_of_a_context_and_modes_of_single_subjects_take_rights_on_the_cluster(ask: Asking) -> None:
    ask.be((Operation.ALL, TOPIC, "*"))
    for path, sent in (("config/:.lab:", {"compatibility": "FULL"}), ("mode/t-value", {"mode": "IMPORT"}),
                       ("contexts/.lab/config", {"compatibility": "FULL"})):  # fmt: skip
        assert ask("PUT", path, sent)[0] == 403
    assert ask("PUT", "config/t-value", {"compatibility": "FULL"})[0] == 200
    ask.be((Operation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME))
    assert ask("PUT", "config/:.lab:", {"compatibility": "FULL"})[0] == 200
    assert ask("GET", "config/:.lab:")[0] == 200
    assert ask("PUT", "config/t-value", {"compatibility": "FULL"})[0] == 403


def test_other_people_s_references_keep_a_schema_and_are_not_told(ask: Asking) -> None:
    schema = {"type": "record", "name": "Box", "fields": [{"name": "r", "type": "R"}]}
    ask.register("u-key", schema, references=[{"name": "R", "subject": "t-value", "version": 1}])
    ask.be((Operation.ALL, TOPIC, "t"))
    assert ask("GET", "subjects/t-value/versions/1/referencedby") == (200, [])
    status, found = ask("DELETE", "subjects/t-value")
    assert (status, found["error_code"]) == (422, 42206)
    assert "u-key" not in found["message"]
