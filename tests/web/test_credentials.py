"""Credentials in requests over HTTP: headers, where they go, and the sentence of a refusal."""

from __future__ import annotations

import base64

import pytest

from ottla.web.credentials import Credential, NoCredential, basic, bearer

SAFE = ("https://registry:8081", "http://localhost:8081", "http://127.0.0.9", "http://[::1]:8081/x")
OPEN = ("http://registry:8081", "http://0.0.0.0:8081", "http://10.0.0.1", "http://localhost.example.com")


def anna(*, in_the_clear: bool = False) -> Credential:
    return Credential("User:anna", "password", lambda: basic("anna", "her secret"), in_the_clear, "give an https URL")


def test_basic_is_written_in_utf_8() -> None:
    scheme, text = basic("änna", "pässwörd:x").split()
    assert (scheme, base64.b64decode(text).decode()) == ("Basic", "änna:pässwörd:x")


def test_a_name_that_would_be_read_as_another_is_not_written() -> None:
    with pytest.raises(NoCredential, match="colon"):
        basic("anna:x", "secret")


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Other: 1", "ä", "=a"])
def test_a_text_that_is_no_token_is_not_written_and_not_told(token: str) -> None:
    assert bearer("a.b-c_d~e+f/g==") == "Bearer a.b-c_d~e+f/g=="
    with pytest.raises(NoCredential) as refused:
        bearer(token)
    assert not token or token not in str(refused.value)


def test_a_credential_goes_over_https_and_to_this_machine() -> None:
    for url in SAFE:
        assert anna().headers(url) == {"Authorization": basic("anna", "her secret")}, url
    for url in OPEN:
        assert anna().headers(url) == {}, url
        assert anna(in_the_clear=True).headers(url) == anna().headers(SAFE[0]), url


def test_nobody_shows_nothing() -> None:
    nobody = Credential("nobody", "password", None, in_the_clear=True, advice="set a variable")
    assert nobody.headers(SAFE[0]) == {}
    said = nobody.refusal("the worker", "https://w", 401, "give a password")
    assert said == "the worker at https://w answers 401 (give a password): set a variable"


def test_a_refusal_names_the_caller_and_what_to_do() -> None:
    asked = "the worker", "https://w"
    assert anna().refusal(*asked, 401, "no") == "the worker at https://w does not take the password of User:anna: no"
    assert anna().refusal(*asked, 403, "no") == "the worker at https://w does not let User:anna do this: no"
    said = anna().refusal("the worker", "http://w", 401, "no")
    assert said == "the worker at http://w answers 401 (no): give an https URL"


def test_a_credential_cannot_be_printed() -> None:
    assert "secret" not in repr(anna())
    assert "anna" not in repr(anna())
