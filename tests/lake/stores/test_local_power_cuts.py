"""A local lake on a disk whose power is cut before every single operation, in every legal state afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sim_files import SimFiles

from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.stores.base import FinishedFile
from ottla.stores.local import LocalStore

LAKE = Path("/srv/lake")
Call = Callable[[LocalStore], object]
MOVES = [FinishedFile("_ottla/tmp/7/a", "topic=a/part-0", 600), FinishedFile("_ottla/tmp/7/b", "topic=b/part-0", 5)]
BODIES = [b"A" * 600, b"BBBBB"]


def a_store(disk: SimDisk) -> LocalStore:
    return LocalStore(LAKE, SimFiles(disk))


def prepared(*calls: Call) -> SimDisk:
    """A disk on which the calls are done and everything is durable."""
    disk = SimDisk()
    for call in calls:
        call(a_store(disk))
    disk.lose_unsynced()
    return disk


def states_after_a_cut(call: Call, *before: Call) -> Iterator[LocalStore]:
    """Every state of the disk that a power cut at any operation of a call may leave."""
    cut = 0
    while True:
        disk = prepared(*before)
        disk.cut_after = disk.operations + cut
        try:
            call(a_store(disk))
        except PowerCut:
            yield from map(a_store, disk.legal_states())
        else:
            assert cut > 0, "the call changed nothing"
            return
        cut += 1


def states_after(call: Call, *before: Call) -> Iterator[LocalStore]:
    """Every state of the disk that a power cut right after a call has returned may leave."""
    disk = prepared(*before)
    call(a_store(disk))
    yield from map(a_store, disk.legal_states())


def reads(name: str, states: Iterator[LocalStore]) -> set[bytes | None]:
    return {state.read(name) for state in states}


def create(body: bytes) -> Call:
    return lambda store: store.create("_ottla/plan-1", body)


def replace(body: bytes) -> Call:
    return lambda store: store.replace("_ottla/head", body)


def write(*moves: FinishedFile) -> Call:
    def call(store: LocalStore) -> None:
        for move, body in zip(MOVES, BODIES, strict=True):
            if move in moves:
                output = store.open_output(move.temporary)
                output.sink.write(body)
                assert output.finish() == move.bytes

    return call


def reveal(store: LocalStore) -> None:
    store.reveal(MOVES)


BODY = b"x" * 1500
"""A body of several sectors, so that a torn write would show."""


# -- create and replace


def test_a_created_file_is_there_after_any_cut_that_follows():
    assert reads("_ottla/plan-1", states_after(create(BODY))) == {BODY}


def test_a_cut_create_leaves_the_whole_file_or_none():
    assert reads("_ottla/plan-1", states_after_a_cut(create(BODY))) == {BODY, None}


def test_a_creator_that_finds_its_own_body_makes_it_last():
    """The first try was killed before its sync, so the repeat must not trust the page cache."""
    disk = SimDisk()
    killed = a_store(disk)
    killed._made("_ottla/plan-1")
    temporary = killed._written(LAKE / "_ottla/plan-1", BODY)
    SimFiles(disk).link(temporary, LAKE / "_ottla/plan-1")
    assert {state.read("_ottla/plan-1") for state in map(a_store, disk.legal_states())} == {BODY, None}
    assert a_store(disk).create("_ottla/plan-1", BODY) is True
    assert {state.read("_ottla/plan-1") for state in map(a_store, disk.legal_states())} == {BODY}


def test_a_creator_that_lost_is_not_proved_wrong_by_a_cut():
    disk = SimDisk()
    killed = a_store(disk)
    killed._made("_ottla/plan-1")
    SimFiles(disk).link(killed._written(LAKE / "_ottla/plan-1", BODY), LAKE / "_ottla/plan-1")
    assert a_store(disk).create("_ottla/plan-1", b"mine") is False
    assert {state.read("_ottla/plan-1") for state in map(a_store, disk.legal_states())} == {BODY}


def test_a_folder_made_by_a_killed_process_is_made_durable_by_the_next():
    disk = SimDisk()
    disk.make_directory(str(LAKE / "_ottla"))
    create(BODY)(a_store(disk))
    assert {state.read("_ottla/plan-1") for state in map(a_store, disk.legal_states())} == {BODY}


def test_a_replaced_file_is_new_after_any_cut_that_follows():
    assert reads("_ottla/head", states_after(replace(BODY), replace(b"old"))) == {BODY}


def test_a_cut_replace_leaves_the_old_or_the_new_body():
    assert reads("_ottla/head", states_after_a_cut(replace(BODY), replace(b"old"))) == {BODY, b"old"}


def test_a_cut_call_shows_no_file_of_its_own_making():
    for state in states_after_a_cut(create(BODY), replace(b"old")):
        assert {entry.name for entry in state.entries("_ottla/")} <= {"_ottla/head", "_ottla/plan-1"}


# -- outputs and reveal


def test_a_finished_output_is_whole_after_any_cut_that_follows():
    assert reads(MOVES[0].temporary, states_after(write(MOVES[0]))) == {BODIES[0]}


def test_a_cut_output_is_whole_or_not_there():
    assert reads(MOVES[0].temporary, states_after_a_cut(write(MOVES[0]))) == {BODIES[0], None}


def test_revealed_files_stay_revealed():
    for state in states_after(reveal, write(*MOVES)):
        assert [state.read(move.final) for move in MOVES] == BODIES
        assert state.entries("_ottla/tmp/") == []


def test_a_cut_reveal_is_finished_by_a_repeat_from_every_state():
    seen = 0
    for state in states_after_a_cut(reveal, write(*MOVES)):
        for move, body in zip(MOVES, BODIES, strict=True):
            assert state.read(move.final) in (body, None)
        reveal(state)
        assert [state.read(move.final) for move in MOVES] == BODIES
        assert state.entries("_ottla/tmp/") == []
        seen += 1
    assert seen > 20


def test_a_repeat_of_a_reveal_may_be_cut_too():
    """Files that the first process moved before it was killed are in the page cache only."""

    def killed_half_way(store: LocalStore) -> None:
        store._give_name(LAKE / MOVES[0].temporary, store._made(MOVES[0].final))

    for state in states_after_a_cut(lambda store: (killed_half_way(store), reveal(store)), write(*MOVES)):
        reveal(state)
        assert [state.read(move.final) for move in MOVES] == BODIES
    disk = prepared(write(*MOVES))
    killed_half_way(a_store(disk))
    reveal(a_store(disk))
    for state in map(a_store, disk.legal_states()):
        assert [state.read(move.final) for move in MOVES] == BODIES


def test_names_that_somebody_else_moved_are_made_durable_too():
    disk = prepared(write(*MOVES), lambda store: store.replace("topic=a/other", b""))
    disk.rename(str(LAKE / MOVES[0].temporary), str(LAKE / MOVES[0].final))
    reveal(a_store(disk))
    assert {state.read(MOVES[0].final) for state in map(a_store, disk.legal_states())} == {BODIES[0]}


def test_a_cut_reveal_over_an_older_file_leaves_the_old_or_the_new_one():
    older = b"rows of a round that was given up"
    before = (write(*MOVES), lambda store: store.replace(MOVES[0].final, older))
    found = set()
    for state in states_after_a_cut(reveal, *before):
        found.add(state.read(MOVES[0].final))
        reveal(state)
        assert [state.read(move.final) for move in MOVES] == BODIES
    assert found == {older, BODIES[0]}


# -- remove


@pytest.mark.parametrize(
    "remove",
    [lambda store: store.remove([MOVES[0].temporary]), lambda store: store.remove_folder("_ottla/tmp/7/")],
)
def test_a_removed_file_does_not_come_back(remove):
    assert reads(MOVES[0].temporary, states_after(remove, write(MOVES[0]))) == {None}


def test_a_folder_that_was_removed_is_made_durable_anew():
    disk = prepared(write(MOVES[0]))
    store = a_store(disk)
    store.open_output(MOVES[0].temporary).abandon()
    store.remove_folder("_ottla/tmp/")
    write(MOVES[0])(store)
    assert {state.read(MOVES[0].temporary) for state in map(a_store, disk.legal_states())} == {BODIES[0]}


def test_a_folder_that_another_process_made_anew_is_made_durable_too():
    disk = prepared(write(MOVES[0]))
    store = a_store(disk)
    store.open_output(MOVES[0].temporary).abandon()
    store.remove_folder("_ottla/tmp/")
    disk.make_directory(str(LAKE / "_ottla/tmp/7"))
    write(MOVES[0])(store)
    assert {state.read(MOVES[0].temporary) for state in map(a_store, disk.legal_states())} == {BODIES[0]}


# -- errors


def test_a_failed_sync_is_an_error_and_leaves_no_file_behind():
    disk = prepared(replace(b"old"))
    disk.fail("sync", 5)
    with pytest.raises(OSError, match="sync"):
        replace(BODY)(a_store(disk))
    assert a_store(disk).read("_ottla/head") == b"old"
    assert disk.list(str(LAKE / "_ottla")) == ["head"]


def test_a_full_disk_is_an_error_and_the_old_body_stands():
    disk = prepared(replace(b"old"))
    disk.capacity_bytes = 100
    with pytest.raises(OSError, match="space"):
        replace(BODY)(a_store(disk))
    assert a_store(disk).read("_ottla/head") == b"old"
    assert disk.list(str(LAKE / "_ottla")) == ["head"]


def test_a_real_store_writes_in_the_same_order(tmp_path):
    """Run the calls above once on the real disk."""
    store = LocalStore(tmp_path / "lake")
    for call in (create(BODY), replace(b"old"), replace(BODY), write(*MOVES), reveal):
        call(store)
    assert [store.read(name) for name in ("_ottla/plan-1", "_ottla/head", MOVES[0].final)] == [BODY, BODY, BODIES[0]]
    assert not [name for _, _, files in os.walk(tmp_path) for name in files if name.startswith(".")]
