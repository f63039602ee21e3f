"""S3 behind a proxy that loses answers, refuses, stalls and cuts connections: the store keeps its promises."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from fault_proxy import CUT, CUT_ANSWER, HOLD, LOSE, STATUS, FaultProxy
from store_rigs import BUCKET, MotoServer, written

from ottla.stores import FinishedFile, LakeRefused, StoreUnreachable, open_store
from ottla.stores.object_client import Patience
from ottla.stores.objects import ObjectStore
from ottla.stores.urls import place_of

MIB = 1024 * 1024
SHORT = Patience(retries=3, seconds=5, request_seconds=10)
"""Settings of a client that gives up soon."""
BURST = 3
FOR_EVER = 1_000


@pytest.fixture
def proxy(moto: MotoServer, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """Stands between every client of this process and the store."""
    made = FaultProxy(moto.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.url)
    yield made
    made.stop()


@pytest.fixture
def store(proxy: FaultProxy, s3_url: str) -> ObjectStore:
    return ObjectStore(place_of(s3_url), SHORT)


# -- create


def test_a_creator_whose_answer_is_lost_has_won(store, proxy):
    with proxy.rule("PUT", "plan-1", LOSE):
        assert store.create("_ottla/plan-1", b"mine") is True
    assert store.read("_ottla/plan-1") == b"mine"


def test_a_creator_whose_every_answer_is_lost_has_won(store, proxy):
    with proxy.rule("PUT", "plan-1", LOSE, times=FOR_EVER):
        assert store.create("_ottla/plan-1", b"mine") is True


def test_a_creator_whose_answer_is_lost_behind_another_has_not_won(store, proxy):
    assert store.create("_ottla/plan-1", b"another's") is True
    with proxy.rule("PUT", "plan-1", LOSE):
        assert store.create("_ottla/plan-1", b"mine") is False
    assert store.read("_ottla/plan-1") == b"another's"


@pytest.mark.parametrize("status", [409, 412])
def test_a_conflict_that_left_nothing_there_is_tried_again(store, proxy, status):
    """409: two conditional puts raced and both failed. 412 without an object: the other object was deleted."""
    with proxy.rule("PUT", "plan-1", STATUS, times=2, status=status):
        assert store.create("_ottla/plan-1", b"mine") is True
    assert store.read("_ottla/plan-1") == b"mine"


def test_a_conflict_without_end_is_a_passing_fault(store, proxy):
    with proxy.rule("PUT", "plan-1", STATUS, times=FOR_EVER, status=409), pytest.raises(StoreUnreachable):
        store.create("_ottla/plan-1", b"mine")


def test_a_create_cut_in_the_middle_of_its_body_is_sent_again_whole(store, proxy):
    body = os.urandom(MIB)
    with proxy.rule("PUT", "plan-1", CUT):
        assert store.create("_ottla/plan-1", body) is True
    assert store.read("_ottla/plan-1") == body


# -- bursts, and faults that do not pass


def test_a_store_that_is_away_for_twelve_tries_is_waited_for(proxy, s3_url):
    """A refused connection fails at once: the patience of a lake counts time, not tries."""
    store = open_store(s3_url)
    with proxy.rule("PUT", "/head", LOSE, times=12):
        store.replace("head", b"1")
    assert store.read("head") == b"1"


def test_a_burst_of_503_is_waited_out_by_every_call(store, proxy):
    with proxy.rule("PUT", "/head", STATUS, times=BURST):
        store.replace("head", b"1")
    with proxy.rule("GET", "/head", STATUS, times=BURST):
        assert store.read("head") == b"1"
    with proxy.rule("GET", "list-type", STATUS, times=BURST):
        assert [entry.name for entry in store.entries("")] == ["head"]
    move = written(store, "final", b"rows")
    with proxy.rule("HEAD", move.temporary, STATUS, times=BURST), proxy.rule("PUT", "/final", STATUS, times=BURST):
        store.reveal([move])
    with proxy.rule("POST", "delete", STATUS, times=BURST):
        store.remove(["head"])
    assert [entry.name for entry in store.entries("")] == ["final"]


@pytest.mark.parametrize(
    ("action", "status"), [(STATUS, 503), (STATUS, 500), (STATUS, 429), (CUT_ANSWER, 0), (LOSE, 0)]
)
def test_a_fault_that_does_not_pass_is_said_to_be_passing(store, proxy, action, status):
    store.replace("head", b"0123456789")
    with (
        proxy.rule("GET", "/head", action, times=FOR_EVER, status=status),
        pytest.raises(StoreUnreachable, match="head"),
    ):
        store.read("head")


def test_a_store_that_nobody_answers_for_is_unreachable(store, proxy):
    proxy.stop()
    for call in (
        lambda: store.create("a", b""),
        lambda: store.replace("a", b""),
        lambda: store.read("a"),
        lambda: store.entries(""),
        lambda: store.remove(["a"]),
        lambda: store.open_input("a"),
        lambda: store.open_output("a").finish(),
        lambda: store.reveal([FinishedFile("a", "b", 1)]),
    ):
        with pytest.raises(StoreUnreachable):
            call()


def test_missing_rights_are_not_passing(store, proxy):
    with proxy.rule("PUT", "/head", STATUS, status=403), pytest.raises(PermissionError):
        store.replace("head", b"")
    with proxy.rule("GET", "list-type", STATUS, status=403), pytest.raises(PermissionError):
        store.entries("")


def test_a_missing_bucket_is_said_and_not_taken_for_an_empty_lake(proxy):
    store = ObjectStore(place_of("s3://no-such-bucket/lake"), SHORT)
    for call in (lambda: store.read("head"), lambda: store.entries(""), lambda: store.create("a", b"")):
        with pytest.raises(LakeRefused, match="bucket does not exist"):
            call()


# -- replace, remove, reveal


def test_a_replace_whose_answer_is_lost_is_repeated(store, proxy):
    with proxy.rule("PUT", "/head", LOSE):
        store.replace("head", b"new")
    assert store.read("head") == b"new"


def test_a_slow_put_is_not_seen_before_it_is_done(store, proxy, moto):
    store.replace("head", b"old")
    with proxy.rule("PUT", "/head", HOLD) as rule:
        putting = threading.Thread(target=store.replace, args=("head", b"new"))
        putting.start()
        rule.struck.wait()
        assert store.read("head") == b"old"
        rule.let_go.set()
        putting.join()
    assert store.read("head") == b"new"


def test_a_delete_whose_answer_is_lost_is_repeated(store, proxy):
    store.replace("head", b"1")
    with proxy.rule("POST", "delete", LOSE):
        store.remove(["head"])
    assert store.read("head") is None


def test_a_copy_whose_answer_is_lost_is_repeated(store, proxy):
    moves = [written(store, f"final-{number}", b"rows") for number in range(3)]
    with proxy.rule("PUT", "/final-1", LOSE):
        store.reveal(moves)
    assert [entry.name for entry in store.entries("final")] == []
    assert [store.read(move.final) for move in moves] == [b"rows"] * 3
    assert store.entries("_ottla/tmp/") == []


def test_a_reveal_that_fails_in_the_middle_is_finished_by_a_repeat(store, proxy):
    moves = [written(store, f"topic=a/part-{number:02}", b"rows %d" % number) for number in range(30)]
    with proxy.rule("PUT", "/part-17", STATUS, times=FOR_EVER), pytest.raises(StoreUnreachable):
        store.reveal(moves)
    assert len(store.entries("_ottla/tmp/")) == 30, "a temporary file goes when all stand under their final names"
    store.reveal(moves)
    assert [entry.name for entry in store.entries("topic=a/")] == [move.final for move in moves]
    assert store.entries("_ottla/tmp/") == []


def test_a_reveal_that_could_not_delete_is_finished_by_a_repeat(store, proxy):
    move = written(store, "final", b"rows")
    with proxy.rule("POST", "delete", STATUS, times=FOR_EVER), pytest.raises(StoreUnreachable):
        store.reveal([move])
    assert store.read("final") == b"rows"
    store.reveal([move])
    assert store.entries("_ottla/tmp/") == []


def test_moves_run_side_by_side(proxy, s3_url):
    """All copies wait at the store at the same time; one after the other, the second would never arrive."""
    store = ObjectStore(place_of(s3_url), Patience(request_seconds=100))
    moves = [written(store, f"final-{number}", b"rows") for number in range(8)]
    with ExitStack() as block:
        rules = [block.enter_context(proxy.rule("PUT", f"/{move.final}", HOLD)) for move in moves]
        revealing = threading.Thread(target=store.reveal, args=(moves,))
        revealing.start()
        arrived = [rule.struck.wait(120) for rule in rules]
        for rule in rules:
            rule.let_go.set()
        revealing.join()
    assert all(arrived)
    assert store.read("final-7") == b"rows"


# -- outputs


def test_a_small_output_whose_answer_is_lost_stands(store, proxy):
    output = store.open_output("data/1")
    output.sink.write(b"rows")
    with proxy.rule("PUT", "data/1", LOSE, times=FOR_EVER):
        assert output.finish() == 4
    assert store.read("data/1") == b"rows"


def test_a_large_output_whose_last_answer_is_lost_stands(store, proxy, moto, s3_url):
    output = store.open_output("data/1")
    output.sink.write(bytes(20 * MIB))
    with proxy.rule("POST", "uploadId", LOSE, times=FOR_EVER):
        assert output.finish() == 20 * MIB
    assert [entry.bytes for entry in store.entries("data/")] == [20 * MIB]


def test_another_writers_object_is_not_taken_for_ones_own(store, proxy):
    store.replace("data/1", b"abcd")
    output = store.open_output("data/1")
    output.sink.write(b"rows")
    with proxy.rule("PUT", "data/1", STATUS, times=FOR_EVER), pytest.raises(StoreUnreachable):
        output.finish()
    assert store.read("data/1") == b"abcd"


def test_a_piece_cut_half_way_is_sent_again(store, proxy):
    body = os.urandom(20 * MIB)
    output = store.open_output("data/1")
    with proxy.rule("PUT", "partNumber=2", CUT), proxy.rule("PUT", "partNumber=1", LOSE):
        output.sink.write(body)
        output.finish()
    assert store.read("data/1") == body


def test_an_upload_that_fails_is_aborted_and_shows_nothing(store, proxy, moto, s3_url):
    output = store.open_output("data/1")
    prefix = place_of(s3_url).path
    with proxy.rule("PUT", "partNumber=2", STATUS, times=FOR_EVER), pytest.raises(StoreUnreachable):
        output.sink.write(bytes(40 * MIB))
        output.finish()
    output.abandon()
    assert store.entries("data/") == []
    assert moto.open_uploads(prefix) == []


def test_an_abandoned_upload_is_aborted(store, moto, s3_url):
    output = store.open_output("data/1")
    output.sink.write(bytes(40 * MIB))
    output.abandon()
    assert moto.open_uploads(place_of(s3_url).path) == []


def test_no_more_than_six_pieces_are_in_memory(store, proxy):
    """While the store takes no piece, a writer is stopped after six pieces of 8 MiB."""
    output = store.open_output("data/1")
    with proxy.rule("PUT", "partNumber", HOLD, times=FOR_EVER) as rule:
        writing = threading.Thread(target=lambda: [output.sink.write(bytes(MIB)) for _ in range(96)])
        writing.start()
        rule.struck.wait()
        before = -1
        while before != (before := output._pieces.bytes):
            time.sleep(0.5)
        assert 8 * MIB < before <= 48 * MIB
        rule.let_go.set()
        writing.join()
    assert output.finish() == 96 * MIB


@pytest.mark.parametrize("lines", ["output.sink.write(bytes(40 << 20))", "store.hold('one')", "output.finish()"])
def test_a_process_that_leaves_things_open_ends_in_order(store, moto, s3_url, lines):
    """The upload is aborted and the lease released at exit; a thread in obstore once crashed the interpreter."""
    program = (
        "from ottla.stores import open_store\n"
        f"store = open_store('{s3_url}')\noutput = store.open_output('data/1')\n{lines}"
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert moto.open_uploads(place_of(s3_url).path) == []
    store.hold("two").release()


def test_an_output_that_is_forgotten_is_aborted(store, moto, s3_url):
    output = store.open_output("data/1")
    output.sink.write(bytes(40 * MIB))
    del output
    gc.collect()
    assert moto.open_uploads(place_of(s3_url).path) == []


# -- inputs


def test_an_input_cut_in_the_middle_of_an_answer_is_asked_again(store, proxy):
    body = os.urandom(3 * MIB)
    store.replace("data/1", body)
    with store.open_input("data/1") as file, proxy.rule("GET", "data/1", CUT_ANSWER):
        assert file.read() == body


def test_an_object_replaced_under_a_reader_is_an_error_and_not_a_mixture(store):
    store.replace("data/1", bytes(3 * MIB))
    with store.open_input("data/1") as file:
        assert file.read(10) == bytes(10)
        store.replace("data/1", b"\1" * (3 * MIB))
        with pytest.raises(OSError, match="data/1"):
            file.seek(2 * MIB)
            file.read(MIB)


def test_a_small_file_is_read_by_one_request(store, proxy):
    store.replace("data/1", b"0123456789")
    proxy.asked.clear()
    with store.open_input("data/1") as file:
        assert [file.read(1) for _ in range(10)] == [b"%d" % digit for digit in range(10)]
    assert dict(proxy.asked) == {"GET": 1}


# -- the lease


def test_a_renewal_whose_answer_is_lost_keeps_the_lease(store, proxy, s3_url):
    hold = store.hold("one")
    with proxy.rule("PUT", "_ottla/lease", LOSE, times=2) as rule:
        rule.struck.wait()
        with pytest.raises(LakeRefused, match="one"):
            open_store(s3_url).hold("two")
    hold.check()
    hold.release()


def test_a_claim_whose_answer_is_lost_is_held(store, proxy):
    with proxy.rule("PUT", "_ottla/lease", LOSE):
        hold = store.hold("one")
    hold.check()
    hold.release()


@pytest.mark.parametrize("seconds", ["1", "2", "300"])
def test_any_lease_time_makes_a_client_that_tries_again(proxy, s3_url, monkeypatch, seconds):
    monkeypatch.setenv("OTTLA_LAKE_LEASE_SECONDS", seconds)
    with proxy.rule("GET", "_ottla/lease", STATUS):
        open_store(s3_url).hold("one").release()


def test_a_holder_that_cannot_renew_for_the_lease_time_has_lost_the_lake(store, proxy):
    hold = store.hold("one")
    with proxy.rule("PUT", "_ottla/lease", STATUS, times=FOR_EVER):
        deadline = time.monotonic() + 300
        with pytest.raises(LakeRefused, match="could not renew"):
            while time.monotonic() < deadline:
                hold.check()
                time.sleep(0.1)
    with pytest.raises(LakeRefused):
        hold.check()
    hold.release()


def test_a_holder_learns_that_another_took_over(store, moto, s3_url):
    hold = store.hold("one")
    moto.client().put_object(
        Bucket=BUCKET, Key=f"{place_of(s3_url).path}/_ottla/lease",
        Body=b'{"owner": "two", "token": "t", "count": 0, "seconds": 4}',
    )  # fmt: skip
    deadline = time.monotonic() + 300
    with pytest.raises(LakeRefused, match="two"):
        while time.monotonic() < deadline:
            hold.check()
            time.sleep(0.1)
    hold.release()
    assert b"two" in (store.read("_ottla/lease") or b""), "a release touches nothing that is another's"
