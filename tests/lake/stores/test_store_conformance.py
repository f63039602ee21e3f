"""The promises of stores/base.py, tested on a local disk, on S3, on Azure and on HDFS."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from store_rigs import StoreProcess, written

from ottla.stores import FinishedFile, LakeRefused, Store, StoredFile, lake_url, open_store

KINDS = ("local", "s3", "az", "hdfs")
MIB = 1024 * 1024
ODD = "topic=a b/key=x%2Fy+z é/part-0.parquet"
RACERS = 6


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return lake_url(tmp_path / "lake")
    found: str = request.getfixturevalue(f"{request.param}_url")
    return lake_url(found)


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url)


@pytest.fixture
def process(url: str) -> Iterator[Callable[[], StoreProcess]]:
    """Starts processes that end with the test."""
    started: list[StoreProcess] = []

    def start() -> StoreProcess:
        started.append(StoreProcess(url))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def names(store: Store, prefix: str) -> list[str]:
    return [entry.name for entry in store.entries(prefix)]


# -- where it lies


def test_the_url_opens_the_same_place_in_another_process(store, url):
    assert store.url == url
    store.replace("a", b"1")
    assert open_store(store.url).read("a") == b"1"


# -- create


def test_of_two_creators_the_first_wins_and_the_second_changes_nothing(store):
    assert store.create("_ottla/plan-1", b"mine") is True
    assert store.create("_ottla/plan-1", b"yours") is False
    assert store.read("_ottla/plan-1") == b"mine"


def test_a_creator_who_finds_its_own_body_has_won(store):
    assert store.create("_ottla/plan-1", b"mine") is True
    assert store.create("_ottla/plan-1", b"mine") is True


def test_of_racing_threads_exactly_one_creates(url):
    stores = [open_store(url) for _ in range(RACERS)]
    start = threading.Barrier(RACERS)

    def race(number: int) -> bool:
        start.wait()
        return stores[number].create("_ottla/plan-1", b"loader %d" % number)

    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(race, range(RACERS)))
    assert won.count(True) == 1
    assert stores[0].read("_ottla/plan-1") == b"loader %d" % won.index(True)


def test_of_racing_processes_exactly_one_creates(store, process):
    racers = [process() for _ in range(3)]
    for number, racer in enumerate(racers):
        racer.send("create", "_ottla/plan-1", f"loader {number}")
    won = [racer.answer() for racer in racers]
    assert sorted(won) == ["False", "False", "True"]
    assert store.read("_ottla/plan-1") == b"loader %d" % won.index("True")


def test_racing_creators_leave_nothing_but_the_file(store):
    store.create("_ottla/plan-1", b"mine")
    store.create("_ottla/plan-1", b"yours")
    store.replace("_ottla/head", b"1")
    assert store.entries("_ottla/") == [StoredFile("_ottla/head", 1), StoredFile("_ottla/plan-1", 4)]


# -- replace, read


def test_a_replaced_file_has_the_new_body(store):
    store.replace("_ottla/head", b"old")
    store.replace("_ottla/head", b"newer")
    assert store.read("_ottla/head") == b"newer"


def test_a_missing_file_reads_as_none_and_an_empty_one_as_empty(store):
    assert store.read("nothing") is None
    store.replace("empty", b"")
    assert store.read("empty") == b""


def test_a_reader_sees_the_old_or_the_new_body_and_never_a_part(store, url):
    bodies = {bytes([letter]) * 200_000 for letter in b"ab"}
    store.replace("head", min(bodies))
    seen: set[bytes | None] = set()
    over = threading.Event()

    def read() -> None:
        reader = open_store(url)
        while not over.is_set():
            seen.add(reader.read("head"))

    reading = threading.Thread(target=read)
    reading.start()
    for body in sorted(bodies) * 3:
        store.replace("head", body)
    over.set()
    reading.join()
    assert seen <= bodies
    assert seen


# -- entries, remove


def test_entries_are_sorted_and_of_any_depth_and_of_one_folder(store):
    for name in ("a/2", "a/b/c/1", "a/1", "ab/1"):
        store.replace(name, name.encode())
    assert store.entries("a/") == [StoredFile("a/1", 3), StoredFile("a/2", 3), StoredFile("a/b/c/1", 7)]
    assert store.entries("a/", deep=False) == [StoredFile("a/1", 3), StoredFile("a/2", 3)]
    assert store.entries("nothing/") == store.entries("nothing/", deep=False) == []


def test_names_with_odd_characters_come_back_as_they_were_given(store):
    move = written(store, ODD, b"rows")
    store.reveal([move])
    assert store.entries("topic=a b/") == [StoredFile(ODD, 4)]
    assert store.read(ODD) == b"rows"
    store.remove([ODD])
    assert store.read(ODD) is None


def test_removing_what_is_gone_is_no_error(store):
    for name in ("a/1", "a/2"):
        store.replace(name, b"x")
    store.remove(["a/1", "nothing", "a/2", "nowhere/at/all"])
    store.remove([])
    store.remove_folder("a/")
    store.remove_folder("nothing/")
    assert store.entries("a/") == []


def test_a_removed_folder_takes_all_below_it_and_nothing_beside_it(store):
    for name in ("a/1", "a/b/2", "ab/1"):
        store.replace(name, b"x")
    store.remove_folder("a/")
    assert store.entries("a/") == []
    assert names(store, "ab/") == ["ab/1"]
    store.replace("a/1", b"again")
    assert store.read("a/1") == b"again"


# -- outputs and inputs


def test_an_output_is_invisible_until_it_is_finished(store):
    output = store.open_output("data/1")
    output.sink.write(b"half")
    assert store.read("data/1") is None
    assert store.entries("data/") == []
    output.sink.write(b"whole")
    assert output.finish() == 9
    assert store.read("data/1") == b"halfwhole"


def test_closing_the_sink_alone_shows_nothing(store):
    output = store.open_output("data/1")
    with pytest.raises(RuntimeError), output.sink as sink:
        sink.write(b"half")
        raise RuntimeError("the writer failed")
    assert store.entries("data/") == []
    output.abandon()
    assert store.entries("data/") == []


@pytest.mark.parametrize("mib", [0, 1, 20])
def test_an_abandoned_output_is_never_seen(store, mib):
    output = store.open_output("data/1")
    output.sink.write(bytes(mib * MIB))
    output.abandon()
    output.abandon()
    assert store.entries("data/") == []


def test_an_output_without_a_byte_is_an_empty_file(store):
    assert store.open_output("data/1").finish() == 0
    assert store.entries("data/") == [StoredFile("data/1", 0)]
    with store.open_input("data/1") as file:
        assert file.read() == b""


def test_an_output_of_many_pieces_comes_back_whole(store):
    piece = os.urandom(3 * MIB + 17)
    output = store.open_output("data/1")
    for _ in range(8):
        output.sink.write(piece)
    assert output.finish() == 8 * len(piece)
    with store.open_input("data/1") as file:
        assert file.size() == 8 * len(piece)
        assert file.read() == 8 * piece


def test_a_file_is_read_at_random(store):
    body = os.urandom(3 * MIB)
    output = store.open_output("data/1")
    output.sink.write(body)
    output.finish()
    with store.open_input("data/1") as file:
        for at, length in ((0, 10), (2 * MIB, MIB), (5, 100), (len(body) - 10, 100), (MIB, 0)):
            file.seek(at)
            assert file.read(length) == body[at : at + length]


def test_parquet_and_arrow_files_go_in_and_out(store):
    table = pa.table({"id": list(range(200_000)), "text": [f"row {row % 977}" for row in range(200_000)]})
    output = store.open_output("data/1.parquet")
    pq.write_table(table, output.sink, row_group_size=50_000)
    output.finish()
    output = store.open_output("data/1.arrow")
    with pa.ipc.new_file(output.sink, table.schema) as writer:
        writer.write_table(table, 50_000)
    output.finish()
    with store.open_input("data/1.parquet") as file:
        assert pq.ParquetFile(file).read().equals(table)
    with store.open_input("data/1.parquet") as file:
        assert pq.ParquetFile(file, pre_buffer=True).read_row_group(2, columns=["text"]).num_rows == 50_000
    with store.open_input("data/1.arrow") as file:
        assert pa.ipc.open_file(file).read_all().equals(table)


def test_opening_what_is_not_there_says_so(store):
    with pytest.raises(FileNotFoundError):
        store.open_input("data/nothing")


@pytest.mark.parametrize("mib", [1, 40])
def test_what_a_killed_process_was_writing_is_never_seen(store, process, mib):
    writer = process()
    assert writer.ask("write", "data/1", str(mib)) == "written"
    writer.kill()
    assert store.entries("data/") == []
    assert store.read("data/1") is None
    output = store.open_output("data/1")
    output.sink.write(b"second try")
    output.finish()
    assert store.read("data/1") == b"second try"


# -- reveal


def test_revealed_files_have_their_final_names_alone(store):
    moves = [written(store, f"topic=a/part-{number}", b"rows %d" % number) for number in range(20)]
    store.reveal(moves)
    assert sorted(names(store, "topic=a/")) == sorted(move.final for move in moves)
    assert store.entries("_ottla/tmp/") == []
    assert store.read("topic=a/part-7") == b"rows 7"


def test_a_reveal_may_be_repeated(store):
    moves = [written(store, f"topic=a/part-{number}", b"rows %d" % number) for number in range(3)]
    store.reveal(moves)
    store.reveal(moves)
    assert names(store, "topic=a/") == [move.final for move in moves]


@pytest.mark.parametrize("done", range(4))
def test_a_reveal_cut_after_some_moves_is_finished_by_a_repeat(store, done):
    moves = [written(store, f"topic=a/part-{number}", b"rows %d" % number) for number in range(3)]
    store.reveal(moves[:done])
    store.reveal(moves)
    assert [store.read(move.final) for move in moves] == [b"rows 0", b"rows 1", b"rows 2"]
    assert store.entries("_ottla/tmp/") == []


def test_a_reveal_cut_between_the_new_name_and_the_old_is_finished_by_a_repeat(store):
    """Both names exist: an object that is copied but not yet deleted, or a file with two links."""
    move = written(store, "topic=a/part-0", b"rows")
    store.replace(move.final, b"rows")
    store.reveal([move])
    assert store.read(move.final) == b"rows"
    assert store.entries("_ottla/tmp/") == []


def test_a_reveal_takes_the_place_of_an_older_file(store):
    store.replace("topic=a/part-0", b"other rows of a round that was given up")
    store.reveal([written(store, "topic=a/part-0", b"rows")])
    assert store.read("topic=a/part-0") == b"rows"


@pytest.mark.parametrize("final", [None, b"another size"])
def test_a_file_missing_under_both_names_is_refused_by_name(store, final):
    move = written(store, "topic=a/part-0", b"rows")
    store.remove([move.temporary])
    if final is not None:
        store.replace(move.final, final)
    with pytest.raises(LakeRefused, match="topic=a/part-0"):
        store.reveal([move])


def test_a_finished_file_of_another_size_than_planned_is_not_revealed(store):
    move = written(store, "topic=a/part-0", b"rows")
    with pytest.raises(LakeRefused, match="planned were 5"):
        store.reveal([FinishedFile(move.temporary, move.final, 5)])
    assert store.entries("topic=a/") == []


def test_nothing_to_reveal_is_nothing_to_do(store):
    store.reveal([])


# -- hold


def test_a_second_loader_is_refused_by_the_owners_name(store, url):
    hold = store.hold("loader 1 on host.a:17")
    with pytest.raises(LakeRefused, match=r"loader 1 on host\.a:17"):
        open_store(url).hold("loader 2")
    hold.check()
    hold.release()


def test_a_released_lake_is_free_at_once_and_lost_to_the_one_who_released(store, url):
    first = store.hold("one")
    first.release()
    first.release()
    second = open_store(url).hold("two")
    second.check()
    with pytest.raises(LakeRefused, match="released"):
        first.check()
    second.release()
    store.hold("three").release()


def test_the_lake_of_a_killed_loader_is_taken_over(store, process):
    loader = process()
    assert loader.ask("hold", "one") == "held"
    loader.kill()
    hold = store.hold("two")
    hold.check()
    hold.release()


def test_of_many_who_want_a_dead_loaders_lake_one_gets_it(store, process):
    dead, *heirs = [process() for _ in range(4)]
    assert dead.ask("hold", "dead") == "held"
    dead.kill()
    for number, heir in enumerate(heirs):
        heir.send("hold", f"heir {number}")
    answers = [heir.answer() for heir in heirs]
    assert answers.count("held") == 1
    assert sum("another loader (heir" in answer for answer in answers) == 2


def test_a_loader_that_stood_still_past_its_lease_has_lost_the_lake(url, process):
    """A file lock is kept by the kernel, so a local loader loses nothing."""
    loader = process()
    assert loader.ask("hold", "one") == "held"
    loader.stand_still()
    if url.startswith("file:"):
        with pytest.raises(LakeRefused, match="one"):
            open_store(url).hold("two")
        loader.go_on()
        assert loader.ask("check") == "still mine"
        return
    heir = open_store(url).hold("two")
    loader.go_on()
    assert loader.ask("check").startswith("refused: ")
    assert loader.ask("release") == "released"
    heir.check()
    heir.release()


def test_a_loader_at_work_keeps_the_lake(url, process):
    loader = process()
    assert loader.ask("hold", "one") == "held"
    for _ in range(3):
        with pytest.raises(LakeRefused, match="one"):
            open_store(url).hold("two")
    assert loader.ask("check") == "still mine"
