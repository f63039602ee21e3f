"""The claim check."""

import pytest
from obstore.store import MemoryStore

from ottla.connect.claims import Objects, check_in, open_store, redeem
from ottla.connect.errors import ConfigException, ConnectException, RetriableException


def test_content_comes_back_by_its_reference_and_lies_there_once(tmp_path):
    store = open_store(tmp_path.as_uri())
    reference = check_in(store, b"big")
    assert reference == check_in(store, b"big")
    assert redeem(reference, str(tmp_path)) == b"big"
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == [reference["claim"][3:]]


def test_an_object_store_holds_claims_too():
    store = Objects(MemoryStore())
    assert redeem(check_in(store, b"big"), store) == b"big"
    with pytest.raises(ConnectException, match="is not in the store"):
        redeem({"claim": f"00/{'0' * 64}"}, store)


def test_a_content_that_was_changed_is_refused(tmp_path):
    reference = check_in(open_store(str(tmp_path)), b"big")
    (tmp_path / reference["claim"]).write_bytes(b"bad")
    with pytest.raises(ConnectException, match="was changed since it was checked in"):
        redeem(reference, str(tmp_path))


@pytest.mark.parametrize("claim", ["../../etc/passwd", "/etc/passwd", None, "ab/xyz"])
def test_a_reference_leads_nowhere_but_into_the_store(tmp_path, claim):
    with pytest.raises(ConnectException, match="is no claim"):
        redeem({"claim": claim}, str(tmp_path))


def test_a_store_that_cannot_be_written_may_be_later(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RetriableException, match="cannot be written"):
        check_in(open_store(str(tmp_path / "file")), b"big")


@pytest.mark.parametrize("url", ["file://host/x", "nosuch://x"])
def test_a_store_that_is_none_is_refused(url):
    with pytest.raises(ConfigException, match="the claim store"):
        open_store(url)
