"""Files and pages for browsers, and the guard before them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from tests.web.raw import echo

from ottla.web.exchange import HttpError, Request, Response
from ottla.web.files import StaticFiles
from ottla.web.guard import Guarded
from ottla.web.pages import Pages
from ottla.web.routes import Router

SITE = "tests.web.site"


def get(path: str, **headers: str) -> Response:
    router = Router({"static/{path...}": {"GET": StaticFiles(SITE)}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(router(Request("GET", path, headers=named)))


def test_a_file_is_sent_with_its_type_and_a_tag_and_once_only() -> None:
    css, script = get("/static/site.css"), get("/static/js/a.js")
    assert (css.body, css.media_type) == (b"body { color: black }\n", "text/css; charset=utf-8")
    assert (script.body, script.media_type) == (b"alert(1)\n", "text/javascript; charset=utf-8")
    tag = dict(css.headers)["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = get("/static/site.css", if_none_match=known)
        assert (again.status, again.body, dict(again.headers)["ETag"]) == (304, b"", tag)
    assert get("/static/site.css", if_none_match=dict(script.headers)["ETag"]).status == 200


@pytest.mark.parametrize("path", ["../raw.py", "..%2Fraw.py", "js", "js/../../raw.py", "%2Fetc%2Fpasswd", "none.css"])
def test_no_path_leads_to_other_files(path: str) -> None:
    with pytest.raises(HttpError) as refusal:
        get("/static/" + path)
    assert refusal.value.status == 404


def test_a_file_of_an_unknown_type_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_site" / "static").mkdir(parents=True)
    (tmp_path / "odd_site" / "static" / "a.exe").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"a\.exe: no media type for \.exe; there are: css, "):
        StaticFiles("odd_site")


def test_a_page_shows_values_as_text() -> None:
    page = Pages(SITE).page("boat.html", name='"><script>x</script>', rows=["</script><b>"])
    assert isinstance(page.body, bytes)
    assert page.body.count(b"<script") == 1
    assert b"<b>" not in page.body
    assert b"&#34;&gt;&lt;script&gt;" in page.body
    assert "default-src 'self'" in dict(page.headers)["Content-Security-Policy"]


def test_a_page_without_one_of_its_values_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'name' is undefined"):
        Pages(SITE).page("boat.html", rows=[])


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"host": "localhost:80"}, 200),
        ("GET", {"host": "[::1]:80", "sec-fetch-site": "cross-site"}, 200),
        ("GET", {"host": "evil.example:80"}, 403),
        ("GET", {"host": "localhost.evil.example"}, 403),
        ("GET", {"host": "[::1"}, 403),
        ("GET", {}, 403),
        ("POST", {"host": "localhost:80"}, 200),
        ("POST", {"host": "localhost:80", "sec-fetch-site": "same-origin"}, 200),
        ("POST", {"host": "localhost:80", "sec-fetch-site": "none"}, 200),
        ("POST", {"host": "localhost:80", "origin": "http://localhost:80"}, 200),
        ("POST", {"host": "localhost:80", "sec-fetch-site": "same-site"}, 403),
        ("DELETE", {"host": "localhost:80", "sec-fetch-site": "cross-site"}, 403),
        ("PUT", {"host": "localhost:80", "origin": "http://localhost:81"}, 403),
        ("PUT", {"host": "localhost:80", "origin": "null"}, 403),
    ],
)
def test_other_sites_may_not_change_and_foreign_names_not_read(
    method: str, headers: dict[str, str], status: int
) -> None:
    async def ask() -> int:
        try:
            return (await Guarded(echo)(Request(method, "/", headers=headers))).status
        except HttpError as refusal:
            return refusal.status

    assert asyncio.run(ask()) == status
