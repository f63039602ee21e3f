"""State files: what a task kept comes back after any cut, and damage is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.streams.batches import ROWS, inputs, written
from tests.streams.topologies import built

from ottla.stores.local import LocalStore
from ottla.streams.engine.task import Task
from ottla.streams.state import folder as folders
from ottla.streams.state.files import StateDamaged, StateFile, Step, pack, unpack
from ottla.streams.state.folder import NOTHING, Kept, StateFolder
from ottla.streams.stores.disk import DISK, MEMORY, database
from ottla.streams.values import Input

NAMES = ["hopping_close", "session_close", "streams_outer", "window_count_suppress", "foreign", "tables_twice", "grace"]


def task(name: str, stores: str = MEMORY) -> Task:
    return Task(built(name), shared={}, rows=database(stores))


def step(folder: StateFolder, name: str, batch: int, records: list[Input], stores: str = MEMORY) -> list[Any]:
    """One batch by a worker that holds nothing yet."""
    mine = task(name, stores)
    at = Step(batch, 0)
    kept = folder.restore(at, mine.stores, mine.restore, held=NOTHING, first=True)
    results = mine.run(batch, records)
    folder.write(at, kept, results.changes, mine.stores, {"batch": batch}, mine.times.seen)
    return written([results])


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, cuts=st.lists(st.integers(1, 6), min_size=4, max_size=4), repeats=st.sets(st.integers(0, 3)))
def test_batches_that_other_workers_run_and_repeat_give_what_one_task_gives(
    name: str, rows: list[Any], cuts: list[int], repeats: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = StateFolder(LocalStore(tmp_path_factory.mktemp("state")), "0/0")
    records = inputs(rows, built(name).topics())
    whole, at = task(name), 0
    for batch, size in enumerate(cuts):
        expected = written([whole.run(batch, records[at : at + size])])
        for _ in range(1 + (batch in repeats)):
            stores = DISK if batch % 2 else MEMORY  # the files are the same for both
            assert step(folder, name, batch, records[at : at + size], stores) == expected
        at += size


def counted(folder: StateFolder, batch: int, *, key: str = "k") -> list[Any]:
    return step(folder, "count", batch, inputs([("a", key, "1", batch)], ("a",)))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def names(store: LocalStore) -> list[str]:
    return [entry.name for entry in store.entries("0/0/")]


def test_a_snapshot_takes_the_place_of_deltas_and_old_files_go(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "LEAST_ENTRIES", 3)
    monkeypatch.setattr(folders, "KEPT_BATCHES", 4)
    folder = StateFolder(store, "0/0")
    for batch in range(12):
        ((_, _, value, _),) = counted(folder, batch)
        assert value == str(batch + 1).encode()
    found = names(store)
    assert any(name.endswith(".snap") for name in found)
    assert "0/0/0.0.delta" not in found
    assert "0/0/11.0.delta" in found
    for name in found:
        if name.endswith(".delta") and int(name.split("/")[2].split(".")[0]) < 8:
            store.remove([name])
    assert counted(folder, 12)[0][2] == b"13"


def test_a_worker_that_goes_on_from_an_older_copy_keeps_no_row_that_was_deleted_before_a_snapshot(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the deltas since: a snapshot tells nothing of the rows that are gone."""
    monkeypatch.setattr(folders, "LEAST_ENTRIES", 0)
    folder, held = StateFolder(store, "0/0"), task("tables_inner")
    kept = folder.restore(Step(0, 0), held.stores, held.restore, held=NOTHING, first=True)
    results = held.run(0, inputs([("a", "k", "1", 0)], ("a",)))
    kept = folder.write(Step(0, 0), kept, results.changes, held.stores, {}, held.times.seen)
    step(folder, "tables_inner", 1, inputs([("a", "k", None, 1), ("a", "j", "2", 2)], ("a",)))
    assert "0/0/1.0.snap" in names(store)
    assert folder.restore(Step(2, 0), held.stores, held.restore, held=kept, first=True).step == Step(1, 0)
    assert sorted(key for each in held.stores.values() for key, _ in each.all()) == ["j"]


def test_a_missing_delta_is_an_error_and_never_no_change(store: LocalStore) -> None:
    folder = StateFolder(store, "0/0")
    for batch in range(4):
        counted(folder, batch)
    store.remove(["0/0/1.0.delta"])
    with pytest.raises(StateDamaged, match=r"0/0/2\.0\.delta follows step 1\.0, and step 0\.0 was found before it"):
        counted(folder, 4)
    store.remove(["0/0/3.0.delta"])
    with pytest.raises(StateDamaged, match="batch 9 needs the state of batch 8"):
        folder.restore(Step(9, 0), {}, lambda _: None, held=Kept(Step(2, 0), {}, 0), first=True)


def test_a_changed_byte_is_an_error_with_the_files_name(store: LocalStore) -> None:
    folder = StateFolder(store, "0/0")
    counted(folder, 0)
    data = bytearray(store.read("0/0/0.0.delta") or b"")
    data[-3] ^= 1
    store.replace("0/0/0.0.delta", bytes(data))
    with pytest.raises(StateDamaged, match=r"0/0/0\.0\.delta is damaged: its checksum does not fit"):
        counted(folder, 1)


def test_a_repeated_batch_with_another_result_replaces_the_first_one_and_says_so(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    folder = StateFolder(store, "0/0")
    counted(folder, 0)
    counted(folder, 0, key="j")
    assert "0/0/0.0.delta is replaced" in caplog.text
    assert counted(folder, 1, key="j")[0][2] == b"2"


def test_files_of_a_later_attempt_are_not_taken_for_the_state_before(store: LocalStore) -> None:
    folder = StateFolder(store, "0/0")
    counted(folder, 0)
    counted(folder, 1)
    assert counted(folder, 1)[0][2] == b"2"


def test_a_status_reads_the_last_step_and_the_bytes(store: LocalStore) -> None:
    folder = StateFolder(store, "0/0")
    assert folder.told() is None
    counted(folder, 0)
    counted(folder, 1)
    found = folder.told()
    assert found is not None
    assert (found[0], found[1]) == (Step(1, 0), {"batch": 1})
    assert found[2] == sum(entry.bytes for entry in store.entries("0/0/"))


def test_a_task_without_stores_may_begin_in_the_middle_and_one_with_stores_may_not(store: LocalStore) -> None:
    folder = StateFolder(store, "0/0")
    assert folder.restore(Step(5, 0), {}, lambda _: None, held=NOTHING, first=True) == NOTHING
    with pytest.raises(StateDamaged, match="is missing: checkpoint and state belong together"):
        counted(folder, 5)


def test_a_file_of_an_unknown_store_is_refused_by_name() -> None:
    made = pack(StateFile(Step(0, 0), None, {"": {("x",): 5}}), {})
    assert list(unpack(made, {}, "f").parts) == [{"": {("x",): 5}}]
    with pytest.raises(StateDamaged, match="f is no state file of this version"):
        unpack(b"other" + made, {}, "f")
