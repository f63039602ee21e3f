"""Requests as handlers read them, and answers as they make them."""

from __future__ import annotations

import json

import pytest

from ottla.web.exchange import HttpError, Request, json_response

KINDS = ("application/vnd.boats+json", "application/json")


def test_a_refusal_is_a_code_and_a_message_in_json() -> None:
    answer = HttpError(409, "taken", code=40901, headers=(("Retry-After", "1"),)).response()
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body) == {"error_code": 40901, "message": "taken"}
    assert (answer.status, answer.media_type, answer.headers) == (409, "application/json", (("Retry-After", "1"),))
    assert HttpError(415).message == "HTTP 415 Unsupported Media Type"


def test_json_is_written_as_text_and_204_has_none() -> None:
    assert json_response({"ä": [1]}).body == '{"ä":[1]}'.encode()
    assert json_response(None, 204).body == b""


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", b"{}", 415),
        ("application/json", b"", 400),
        ("application/json", b"{", 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b"NaN", 400),
        ("application/json", b"1e400", 400),
        ("application/json", b'"\\ud800"', 400),
        ("application/json", b"\xff", 400),
    ],
)
def test_a_body_that_is_no_json_is_refused(kind: str, body: bytes, status: int) -> None:
    with pytest.raises(HttpError) as refusal:
        Request("POST", "/", headers={"content-type": kind}, body=body).json(KINDS)
    assert refusal.value.status == status


@pytest.mark.parametrize("headers", [{}, {"content-type": "Application/JSON; charset=utf-8"}])
def test_a_body_is_read_with_parameters_of_its_type_and_without_a_type(headers: dict[str, str]) -> None:
    assert Request("POST", "/", headers=headers, body=b'{"a": 1}').json(KINDS) == {"a": 1}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", KINDS[0]),
        ("text/html, Application/JSON;q=0.9", KINDS[1]),
        ("*/*", KINDS[0]),
        ("application/*", KINDS[0]),
        ("text/*", KINDS[0]),
    ],
)
def test_the_answer_has_the_first_accepted_type_that_is_offered(accept: str, kind: str) -> None:
    assert Request("GET", "/", headers={"accept": accept}).accepted(KINDS) == kind


def test_a_type_may_be_demanded_of_both_sides() -> None:
    with pytest.raises(HttpError, match="HTTP 406 Not Acceptable: there is application/json"):
        Request("GET", "/", headers={"accept": "text/plain"}).accepted(["application/json"], strict=True)
    assert Request("GET", "/").accepted(["application/json"], strict=True) == "application/json"
    with pytest.raises(HttpError, match="HTTP 415 Unsupported Media Type: send application/json"):
        Request("POST", "/", body=b"{}").json(untyped=False)


def test_parameters_are_read_and_unknown_ones_refused_where_the_known_are_named() -> None:
    request = Request("GET", "/", "limit=1&limit=2&empty=&a%20b=%C3%A4")
    assert request.query() == {"limit": ["1", "2"], "empty": [""], "a b": ["ä"]}
    with pytest.raises(HttpError, match=r"no parameter 'limit' \(did you mean limits\?\); there are: limits"):
        request.query({"limits"})
    with pytest.raises(HttpError, match="not text in UTF-8"):
        Request("GET", "/", "a=%FF").query()
