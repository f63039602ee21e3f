"""The interface over HTTP: paths, bodies, media types and codes."""

from __future__ import annotations

import json

import pytest
import urllib3
from tests.registry.http_client import V1, Http, record

from ottla.registry.server import RegistryThread


@pytest.fixture
def http(registry: RegistryThread) -> Http:
    return Http(registry.url)


def test_the_answer_to_a_registration(http: Http) -> None:
    answer = http.register("a", record("R", "x"))
    assert answer.status == 200
    assert (answer.json["id"], answer.json["version"]) == (1, 1)
    assert answer.json["guid"] == http("GET", "/subjects/a/versions/1").json["guid"]
    assert answer.headers["content-type"] == V1
    assert http.register("b", record("R", "x")).json["id"] == 1


def test_subjects_may_have_slashes_and_percent_signs(http: Http) -> None:
    for subject in ("a/b", "a%2Fb", "ä b?", ":.lab:x/y"):
        assert http.register(subject, record("R", "x")).json["version"] == 1
        assert subject in http("GET", "/subjects").json
    assert http("GET", "/subjects/a%2Fb/versions").json == [1]
    assert http("GET", "/subjects/a%252Fb/versions").json == [1]
    assert http("GET", "/subjects?subjectPrefix=%3A.lab%3A").json == [":.lab:x/y"]
    assert http("GET", "/subjects/a/b/versions").code == (404, 404)


def test_a_context_before_the_path_bounds_the_list_of_schemas(http: Http) -> None:
    for subject in ("a", ":.lab:b", ":.other:c"):
        http.register(subject, '"int"')
    assert [each["subject"] for each in http("GET", "/contexts/.lab/schemas").json] == [":.lab:b"]
    assert len(http("GET", "/schemas").json) == 3


def test_contexts_may_stand_before_the_path(http: Http) -> None:
    http("POST", "/contexts/.lab/subjects/a/versions", {"schema": '"int"'})
    assert http("GET", "/subjects/%3A.lab%3Aa/versions").json == [1]
    assert http("GET", "/contexts/.lab/subjects").json == [":.lab:a"]
    assert http("GET", "/contexts/.lab/schemas/ids/1").json["schema"] == '"int"'
    assert http("GET", "/schemas/ids/1").code == (404, 40403)
    assert http("GET", "/schemas/ids/1?subject=%3A.lab%3A").json["schema"] == '"int"'
    assert http("GET", "/contexts").json == [".", ".lab"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/subjects/none/versions", (404, 40401)),
        ("GET", "/subjects/none/versions/1", (404, 40401)),
        ("GET", "/subjects/a/versions/9", (404, 40402)),
        ("GET", "/subjects/a/versions/x", (422, 42202)),
        ("GET", "/subjects/a/versions/0", (422, 42202)),
        ("GET", f"/subjects/a/versions/{'1' * 5000}", (422, 42202)),
        ("GET", "/schemas/ids/99", (404, 40403)),
        ("GET", "/schemas/ids/%C2%B2", (404, 404)),
        ("GET", f"/schemas/ids/{'1' * 5000}", (404, 404)),
        ("GET", "/schemas/guids/nonsense", (404, 40403)),
        ("DELETE", "/subjects/none", (404, 40401)),
        ("DELETE", "/subjects/a?permanent=true", (404, 40405)),
        ("DELETE", "/subjects/a/versions/1?permanent=true", (404, 40407)),
        ("GET", "/config/a", (404, 40408)),
        ("GET", "/mode/a", (404, 40409)),
        ("GET", "/nonsense", (404, 404)),
        ("PATCH", "/subjects", (405, 405)),
    ],
)
def test_codes(http: Http, method: str, path: str, code: tuple[int, int]) -> None:
    http.register("a", record("R", "x"))
    assert http(method, path).code == code


def test_every_path_tells_its_methods(registry: RegistryThread) -> None:
    answer = urllib3.request("OPTIONS", f"{registry.url}/mode/a")
    assert (answer.status, answer.data) == (200, b"HEAD, GET, PUT, DELETE, OPTIONS")


def test_a_method_that_is_not_there_is_answered_with_those_that_are(http: Http) -> None:
    answer = http("PATCH", "/contexts/.lab/subjects/a/versions")
    assert answer.code == (405, 405)
    assert answer.headers["allow"] == "HEAD, GET, POST, OPTIONS"
    assert answer.headers["content-type"] == V1


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", "/subjects/a/versions", {"schema": "nonsense"}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "ODD"}, (422, 42201)),
        ("POST", "/subjects/a/versions", {"schema": '"int"'}, (409, 409)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "id": 5}, (422, 42205)),
        ("POST", "/subjects/a/versions", {"schema": 7}, (422, 422)),
        ("POST", "/subjects/a/versions", [], (422, 422)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "references": [{"name": "x"}]}, (422, 422)),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "ruleSet": {"domainRules": [{}]}}, (422, 42210)),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": '"int"'}, (422, 42208)),
        ("POST", "/subjects/:.__GLOBAL:a/versions", {"schema": '"int"'}, (422, 42208)),
        ("POST", "/subjects/a%C2%85/versions", {"schema": '"int"'}, (422, 42208)),
        ("PUT", "/config/a%00", {"compatibility": "NONE"}, (422, 42208)),
        ("PUT", "/config/:.lab:__EMPTY", {"compatibility": "NONE"}, (422, 42208)),
        ("PUT", "/mode/__GLOBAL", {"mode": "READONLY"}, (422, 42208)),
        ("POST", "/subjects/a", {"schema": '"int"'}, (404, 40403)),
        ("POST", "/subjects/none", {"schema": '"int"'}, (404, 40401)),
        ("PUT", "/config", {"compatibility": "ODD"}, (422, 42203)),
        ("PUT", "/mode", {"mode": "ODD"}, (422, 42204)),
        ("PUT", "/mode", {"mode": "IMPORT"}, (422, 42205)),
    ],
)
def test_codes_of_bodies(http: Http, method: str, path: str, body: object, code: tuple[int, int]) -> None:
    http.register("a", record("R", "x"))
    assert http(method, path, body).code == code


def test_bad_bodies(http: Http) -> None:
    path = "/subjects/a/versions"
    assert http("POST", path, raw=b"{").code == (400, 400)
    assert http("POST", path, raw=b"").code == (400, 400)
    assert http("POST", path, raw=b"[" * 100_000).code == (400, 400)
    assert http("POST", path, raw=b'"' + b"x" * (5 * 1024 * 1024) + b'"').code == (413, 413)
    assert http("POST", path, {"schema": json.dumps({**record("R"), "doc": "x" * 1_100_000})}).code == (422, 42209)
    assert http("POST", path, {"schema": '"int"'}, content_type="text/plain").code == (415, 415)


@pytest.mark.parametrize("kind", [V1, "application/vnd.schemaregistry+json", "application/json"])
def test_media_types(http: Http, kind: str) -> None:
    answer = http("POST", "/subjects/a/versions", {"schema": '"int"'}, content_type=kind, accept=kind)
    assert answer.status == 200
    assert answer.headers["content-type"] == kind


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": 5},
        {"metadata": {"properties": 5}},
        {"metadata": {"properties": {"a": 5}}},
        {"metadata": {"tags": {"a": 5}}},
        {"ruleSet": {"domainRules": 5}},
        {"ruleSet": {"domainRules": ["x"]}},
        {"ruleSet": {"domainRules": [{"name": "a", "type": "b", "params": 5}]}},
        {"version": 10**30},
        {"version": True},
        {"references": [{"name": "a", "subject": "a", "version": True}]},
        {"schema": '{"enum":[1e400]}', "schemaType": "JSON"},
        {"schema": '{"const":"\\ud800"}', "schemaType": "JSON"},
        {"schema": "[" * 5_000, "schemaType": "JSON"},
        {"schema": f'{{"allOf":[{{"$ref":"#/allOf/{"1" * 5000}"}}]}}', "schemaType": "JSON"},
    ],
)
def test_odd_shapes_are_refused(http: Http, more: dict[str, object]) -> None:
    assert http("POST", "/subjects/a/versions", {"schema": '"int"', **more}).status == 422
    assert http("GET", "/subjects").json == []


@pytest.mark.parametrize(
    "body",
    [
        {"normalize": "x"},
        {"alias": 7},
        {"defaultMetadata": 7},
        {"overrideMetadata": {"tags": 7}},
        {"defaultRuleSet": {"domainRules": 7}},
        {"compatibilityLevel": 5},
    ],
)
def test_odd_settings_are_refused(http: Http, body: dict[str, object]) -> None:
    assert http("PUT", "/config/a", body).status == 422
    assert http("GET", "/config/a").status == 404


def test_parts_of_metadata_may_be_null(http: Http) -> None:
    metadata = {"tags": None, "properties": {"a": "b"}, "sensitive": None}
    assert http.register("a", '"int"', metadata=metadata).status == 200
    assert http("GET", "/subjects/a/versions/1").json["metadata"]["properties"] == {"a": "b"}


def test_half_a_character_is_refused(http: Http) -> None:
    assert http("POST", "/subjects/a/versions", raw=b'{"schema": "\\ud800"}').code == (400, 400)


def test_config_in_all_its_places(http: Http) -> None:
    assert http("GET", "/config").json == {"compatibilityLevel": "BACKWARD"}
    assert http("PUT", "/config", {"compatibility": "FULL"}).json == {"compatibility": "FULL"}
    assert http("GET", "/config").json == {"compatibilityLevel": "FULL"}
    assert http("PUT", "/config/a", {"normalize": True}).json == {"normalize": True}
    assert http("GET", "/config/a").json == {"normalize": True}
    assert http("GET", "/config/a?defaultToGlobal=true").json == {"normalize": True, "compatibilityLevel": "FULL"}
    assert http("DELETE", "/config/a").json == {"normalize": True}
    assert http("DELETE", "/config").json == {"compatibilityLevel": "FULL"}
    assert http("GET", "/config").json == {"compatibilityLevel": "BACKWARD"}


def test_the_config_that_counts_has_the_contexts_too(http: Http) -> None:
    http("PUT", "/config", {"validateFields": True})
    http("PUT", "/config/%3A.lab%3A", {"normalize": True, "compatibility": "NONE"})
    wanted = {"validateFields": True, "normalize": True, "compatibilityLevel": "NONE"}
    assert http("GET", "/config/%3A.lab%3Aa?defaultToGlobal=true").json == wanted


def test_modes_in_all_their_places(http: Http) -> None:
    assert http("GET", "/mode").json == {"mode": "READWRITE"}
    assert http("PUT", "/mode/a", {"mode": "READONLY"}).json == {"mode": "READONLY"}
    assert http("GET", "/mode/a").json == {"mode": "READONLY"}
    assert http("GET", "/mode/b?defaultToGlobal=true").json == {"mode": "READWRITE"}
    assert http("DELETE", "/mode/a").json == {"mode": "READONLY"}


def test_compatibility_with_reasons(http: Http) -> None:
    http.register("a", record("R", "x"))
    path = "/compatibility/subjects/a/versions"
    good, bad = {"schema": json.dumps(record("R", "x", y=1))}, {"schema": json.dumps(record("R", "x", "y"))}
    assert http("POST", path + "/latest", good).json == {"is_compatible": True}
    assert http("POST", path, good).json == {"is_compatible": True}
    answer = http("POST", path + "/1?verbose=true", bad).json
    assert not answer["is_compatible"]
    assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in each for each in answer["messages"])
    assert http("POST", path + "/7", good).code == (404, 40402)


def test_any_schema_is_compatible_with_a_subject_that_has_none(http: Http) -> None:
    body = {"schema": '"int"'}
    assert http("POST", "/compatibility/subjects/new/versions", body).json == {"is_compatible": True}
    assert http("POST", "/compatibility/subjects/new/versions/latest", body).json == {"is_compatible": True}
    assert http("POST", "/compatibility/subjects/new/versions/1", body).code == (404, 40402)


def test_a_check_that_wants_reasons_has_those_against_an_invalid_schema(http: Http) -> None:
    path, body = "/compatibility/subjects/new/versions/latest", {"schema": "nonsense"}
    assert http("POST", path, body).code == (422, 42201)
    answer = http("POST", path + "?verbose=true", body).json
    assert (answer["is_compatible"], answer["messages"][0][:15]) == (False, "Invalid schema:")


def test_deleted_versions_are_seen_only_when_asked_for(http: Http) -> None:
    http.register("a", record("R", "x"))
    http.register("a", record("R", "x", y=1))
    assert http("DELETE", "/subjects/a/versions/latest").json == 2
    assert http("GET", "/subjects/a/versions").json == [1]
    assert http("GET", "/subjects/a/versions?deleted=true").json == [1, 2]
    assert http("GET", "/subjects/a/versions?deletedOnly=true").json == [2]
    assert http("GET", "/subjects/a/versions/2").code == (404, 40402)
    assert http("GET", "/subjects/a/versions/2?deleted=true").json["deleted"] is True
    assert http("GET", "/schemas/ids/2").status == 200
    assert http("GET", "/schemas/ids/2/versions").json == []
    assert http("GET", "/schemas/ids/2/versions?deleted=true").json == [{"subject": "a", "version": 2}]
    assert http("DELETE", "/subjects/a").json == [1]
    assert http("GET", "/subjects").json == []
    assert http("GET", "/subjects?deleted=true").json == ["a"]
    assert http("DELETE", "/subjects/a").code == (404, 40404)


def test_lists_are_cut_into_pages(http: Http) -> None:
    for name in "abcd":
        http.register(name, '"int"')
    assert http("GET", "/subjects?offset=1&limit=2").json == ["b", "c"]
    assert [each["subject"] for each in http("GET", "/schemas?limit=2").json] == ["a", "b"]


def test_other_forms_of_a_schema(http: Http) -> None:
    http.register("b", {"type": "record", "name": "x.B", "fields": []})
    user = {"type": "record", "name": "A", "fields": [{"name": "b", "type": "x.B"}]}
    http.register("a", user, references=[{"name": "x.B", "subject": "b", "version": 1}])
    assert http("GET", "/schemas/ids/2").json["references"] == [{"name": "x.B", "subject": "b", "version": 1}]
    resolved = http("GET", "/schemas/ids/2?format=resolved").json["schema"]
    assert json.loads(resolved)["fields"][0]["type"]["name"] == "B"
    assert http("GET", "/subjects/b/versions/1/referencedby").json == [2]
    http.register("p", 'syntax = "proto3"; message M { }', schemaType="PROTOBUF")
    import base64

    serialized = http("GET", "/subjects/p/versions/1?format=serialized").json["schema"]
    assert b"M" in base64.b64decode(serialized)
    assert http("GET", "/subjects/p/versions/1/schema").json == 'syntax = "proto3"; message M { }'


def test_the_server_tells_what_it_is(http: Http) -> None:
    assert http("GET", "/").json == {}
    assert http("GET", "/v1/metadata/version").json["version"]
    assert http("GET", "/v1/metadata/id").json["scope"]["clusters"]["kafka-cluster"]
    assert http("GET", "/schemas/ids/1?fetchMaxId=true").status == 404
    http.register("a", '"int"')
    assert http("GET", "/schemas/ids/1?fetchMaxId=true").json["maxId"] == 1
    guid = http("GET", "/subjects/a/versions/1").json["guid"]
    assert http("GET", f"/schemas/guids/{guid}/ids").json == [{"context": ".", "id": 1}]
