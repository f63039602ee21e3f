"""`--join` decides where a broker's metadata log is kept."""

from __future__ import annotations

import pytest

from ottla.coordination.sqlite import FILE_NAME, SqliteCoordination
from ottla.kernel.ids import BrokerId
from ottla.server.stores import check_join, open_store, shared_directory


def soon(callback):
    callback()


def opened(join, own, broker=1):
    return open_store(join, str(own), BrokerId(broker), soon, session_timeout_ms=6000)


def written(coordination, entries, expected=0):
    slot = coordination.append(entries, expected)
    coordination.close()  # completes queued work
    return slot.result()


@pytest.mark.parametrize("join", ["sqlite:", "store", "zookeeper://", "zookeeper://h:port", "postgres://h"])
def test_what_cannot_be_joined_is_said_at_once(join):
    with pytest.raises(ValueError, match=r"join|server|port"):
        check_join(join)


def test_the_store_may_be_named_by_its_directory_its_file_or_the_data_directory_around_it(tmp_path):
    store = tmp_path / "data" / "metadata"
    store.mkdir(parents=True)
    (store / FILE_NAME).touch()
    for said in (store, store / FILE_NAME, tmp_path / "data"):
        assert shared_directory(str(said)) == str(store)
    assert shared_directory(str(tmp_path / "new")) == str(tmp_path / "new")


def test_a_store_of_ones_own_moves_to_where_it_is_shared(tmp_path):
    written(opened(None, tmp_path / "own"), [b"entry"])
    shared = opened(f"sqlite:{tmp_path}/shared", tmp_path / "own")
    found = shared.read(0)
    shared.close()
    assert [entry.body for entry in found.result()] == [b"entry"]
    assert not (tmp_path / "own" / FILE_NAME).exists()


def test_two_clusters_are_not_made_one(tmp_path):
    written(opened(None, tmp_path / "own"), [b"one"])
    written(opened(f"sqlite:{tmp_path}/shared", tmp_path / "empty"), [b"other"])
    with pytest.raises(OSError, match="cluster of its own"):
        opened(f"sqlite:{tmp_path}/shared", tmp_path / "own")
    assert (tmp_path / "own" / FILE_NAME).exists()


def test_a_store_that_others_use_stays_where_it_is(tmp_path):
    written(opened(None, tmp_path / "own"), [b"entry"])
    other = SqliteCoordination(str(tmp_path / "own"), BrokerId(2), soon)
    try:
        with pytest.raises(OSError, match="brokers that run"):
            opened(f"sqlite:{tmp_path}/shared", tmp_path / "own")
    finally:
        other.close()
    assert (tmp_path / "own" / FILE_NAME).exists()
    assert not (tmp_path / "shared").exists()


def test_only_its_user_reads_the_store(tmp_path):
    written(opened(None, tmp_path / "own"), [b"entry"])
    assert (tmp_path / "own" / FILE_NAME).stat().st_mode & 0o077 == 0
