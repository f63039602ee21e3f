"""Questions to other servers: bounded, without redirects, without secrets in errors."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.access.identity import Provider, served

from ottla.web.fetch import MOST_BYTES, FetchFailed, fetched


def test_answers_come_whole_and_errors_name_the_url_alone(tmp_path: Path) -> None:
    provider = Provider()
    with served(provider) as url:
        assert fetched(f"{url}/jwks", 10) == provider.jwks()
        for code, passing in ((400, False), (401, False), (404, False), (429, True), (503, True)):
            provider.answers = [(code, b"secret")]
            with pytest.raises(FetchFailed, match=f"/token answered {code}") as fault:
                fetched(f"{url}/token", 10, form=b"password=hunter2", headers={"Authorization": "Basic aHVudGVyMw=="})
            assert fault.value.passing == passing
            assert "hunter2" not in str(fault.value)
            assert "aHVudGVyMw" not in str(fault.value)
        provider.answers = [(200, b"x" * (MOST_BYTES + 1))]
        with pytest.raises(FetchFailed, match="more than"):
            fetched(f"{url}/jwks", 10)
    with pytest.raises(FetchFailed, match="cannot be asked"):
        fetched(f"{url}/jwks", 10)


@pytest.mark.parametrize("sent", [b"Content-Length: 20\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}"])
def test_an_answer_that_is_cut_off_may_come_whole_another_time(sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(fetched, f"http://127.0.0.1:{server.getsockname()[1]}/jwks", 10)
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + sent)
        with pytest.raises(FetchFailed) as fault:
            asked.result(20)
        assert fault.value.passing


@pytest.mark.parametrize("code", [301, 302])
def test_a_redirect_is_not_followed(code: int, tmp_path: Path) -> None:
    provider = Provider()
    with served(provider) as url:
        provider.answers = [(code, f"{url}/elsewhere".encode())]
        with pytest.raises(FetchFailed, match=f"answered {code}"):
            fetched(f"{url}/jwks", 10)
        assert [path for path, _ in provider.asked] == ["/jwks"]


def test_files_are_read_by_their_url_and_no_other_scheme_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a key"
    path.write_bytes(b"content")
    assert fetched(f"file://{tmp_path}/a%20key", 1) == b"content"
    for url in ("file://elsewhere/key", "file:key", f"file://{tmp_path}/none", "ftp://a/b", "data:,x"):
        with pytest.raises(FetchFailed):
            fetched(url, 1)
