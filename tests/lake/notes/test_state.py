import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from ottla.kernel.ids import TopicPartition
from ottla.lake.columns.layout import Layout
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.windows import Tally
from ottla.lake.notes.history import Forgotten
from ottla.lake.notes.plans import Commit, HeldRows, LoadPlan, Publication, RangeCount, WrittenFile, named_files
from ottla.lake.notes.state import FORGOTTEN_TOGETHER, KEPT_ROUNDS, LakeRecords, LakeState
from ottla.rows.plan import OffsetRange
from ottla.stores import LakeRefused, open_store

SPAN = OffsetRange("t", 0, 0, 2, b"0123456789abcdef")
SHAPE = LakeShape()


def a_state(path):
    return LakeState(open_store(path.as_uri()))


def a_publication(state, number=0):
    plan = LoadPlan(number, (SPAN,))
    state.write_plan(plan)
    folder = state.attempt(plan)
    files = []
    for name in ("x", "y"):
        output = state.store.open_output(f"{folder}{name}")
        output.sink.write(name.encode())
        size = output.finish()
        files.append(WrittenFile("t", f"{folder}{name}", ("1970-01-01",), 1, size, (HeldRows(0, 1, 0, 1),)))
    named = named_files(number, files, Layout())
    return Publication(plan, named, (), (RangeCount(SPAN, 2, 2),), {}, folder)


def visible(state):
    return sorted(path.name for path in state.store.directory.glob("topic=*/**/*.parquet"))


def moves(publication):
    return [file.move for file in publication.files]


BOTH = ["t-00000000-00000.parquet", "t-00000000-00001.parquet"]


def test_a_second_loader_on_the_lake_is_refused(tmp_path):
    with a_state(tmp_path), pytest.raises(LakeRefused, match=f"another loader .process {os.getpid()} on .* is at work"):
        a_state(tmp_path)
    a_state(tmp_path).close()


def test_a_loader_killed_lets_the_next_one_in(tmp_path):
    hold = "import sys; from ottla.lake.notes.state import LakeState; from ottla.stores import open_store; s = LakeState(open_store(sys.argv[1])); print('held', flush=True); sys.stdin.read()"  # noqa: E501
    with subprocess.Popen(
        [sys.executable, "-c", hold, tmp_path.as_uri()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LakeRefused, match=f"process {holder.pid}"):
            a_state(tmp_path)
        holder.kill()
        holder.wait()
    a_state(tmp_path).close()


def test_an_empty_lake_stands_at_nothing_and_has_nothing_to_finish(tmp_path):
    with a_state(tmp_path) as state:
        assert state.committed() == Commit()
        assert state.unfinished(Commit()) is None


def test_a_lake_keeps_its_filter_and_one_from_before_there_were_filters_has_none(tmp_path):
    place = tmp_path / "_ottla" / "lake.json"
    with a_state(tmp_path) as state:
        name = state.settle(SHAPE)
        stored = json.loads(place.read_text())
        for later in ("flatten", "where"):
            assert stored.pop(later) == ""
        place.write_text(json.dumps(stored))
        assert state.settle(SHAPE) == name and state.shape() == SHAPE
        with pytest.raises(LakeRefused, match="was made without where, and this load comes with where n > 1"):
            state.settle(replace(SHAPE, where="n > 1"))
        with pytest.raises(LakeRefused, match="was made without flatten, and this load comes with flatten _"):
            state.settle(replace(SHAPE, flatten="_"))


def test_a_lake_keeps_its_layout_and_its_loaders_name(tmp_path):
    with a_state(tmp_path) as state:
        name = state.settle(SHAPE)
    with a_state(tmp_path) as state:
        assert state.settle(SHAPE) == name
        with pytest.raises(LakeRefused, match="was made with values bytes, and this load comes with values json"):
            state.settle(LakeShape(values="json"))
        with pytest.raises(
            LakeRefused, match="was made with partition by day, and this load comes without partition by"
        ):
            state.settle(LakeShape(layout=Layout(())))


def test_a_lake_without_its_layout_beside_rounds_is_damaged(tmp_path):
    with a_state(tmp_path) as state:
        publication = a_publication(state)
        state.write_commit(Commit().after(publication), publication)
        with pytest.raises(LakeRefused, match=r"lake\.json is missing"):
            state.settle(SHAPE)


def test_nothing_is_visible_before_the_publication_is_revealed(tmp_path):
    with a_state(tmp_path) as state:
        publication = a_publication(state)
        assert state.unfinished(Commit()) == publication.plan
        state.write_publication(publication)
        assert visible(state) == []
        assert state.unfinished(Commit()) == publication
        state.store.reveal(moves(publication))
        assert visible(state) == BOTH


def test_a_reveal_that_was_cut_short_is_carried_through(tmp_path):
    with a_state(tmp_path) as state:
        publication = a_publication(state)
        state.write_publication(publication)
        state.store.reveal(moves(publication)[:1])
    with a_state(tmp_path) as state:
        left = state.unfinished(Commit())
        assert left == publication
        state.store.reveal(moves(left))
        state.store.reveal(moves(left))
        state.write_commit(state.committed().after(left), left)
        assert visible(state) == BOTH
        assert state.unfinished(state.committed()) is None
        assert state.store.entries("_ottla/tmp/") == []


def test_every_attempt_has_a_folder_of_its_own(tmp_path):
    with a_state(tmp_path) as state:
        assert state.attempt(LoadPlan(0, (SPAN,))) != state.attempt(LoadPlan(0, (SPAN,)))


def test_of_two_loaders_that_believe_themselves_alone_one_publishes(tmp_path):
    with a_state(tmp_path) as state:
        mine, others = a_publication(state), LoadPlan(0, (SPAN,))
        folder = state.attempt(others)
        state.write_publication(mine)
        with pytest.raises(LakeRefused, match="another loader is at work"):
            state.write_publication(Publication(others, (), (), (RangeCount(SPAN, 2, 2),), {}, folder))
        assert state.unfinished(Commit()) == mine


def test_files_of_attempts_go_once_their_round_is_done_and_not_before(tmp_path):
    with a_state(tmp_path) as state:
        killed, publication = state.attempt(LoadPlan(0, (SPAN,))), a_publication(state)
        state.store.create(f"{killed}left", b"x")
        state.tidy(Commit())
        assert state.store.read(f"{killed}left") == b"x"
        state.write_publication(publication)
        state.store.reveal(moves(publication))
        state.write_commit(Commit().after(publication), publication)
        state.tidy(state.committed())
        assert state.store.entries("_ottla/tmp/") == []


def test_a_file_that_somebody_removed_is_missed(tmp_path):
    with a_state(tmp_path) as state:
        publication = a_publication(state)
        state.store.remove([publication.files[0].written.name])
        with pytest.raises(LakeRefused, match="is missing"):
            state.store.reveal(moves(publication))


def test_a_damaged_state_file_is_named(tmp_path):
    with a_state(tmp_path) as state:
        state.store.create("_ottla/commit-0000000003.json", b'{"form')
        with pytest.raises(LakeRefused, match=r"commit-0000000003\.json is damaged"):
            state.committed()


def a_round(state, number, *, lost=0, **fields):
    span = OffsetRange("t", 0, 2 * number, 2 * number + 2, b"0123456789abcdef")
    plan = LoadPlan(number, (span,), {span.topic_partition: lost} if lost else {})
    publication = Publication(plan, (), (), (RangeCount(span, 2, 2),), **fields)
    state.write_plan(publication.plan)
    state.write_publication(publication)
    state.write_commit(state.committed().after(publication), publication)


def test_old_rounds_are_forgotten_together_and_the_last_ones_kept(tmp_path):
    with a_state(tmp_path) as state:
        for number in range(KEPT_ROUNDS + FORGOTTEN_TOGETHER):
            a_round(state, number)
        assert state.committed().number == KEPT_ROUNDS + FORGOTTEN_TOGETHER - 1
        names = [entry.name for entry in state.store.entries("_ottla/") if entry.name.endswith(".json")]
        assert len(names) == 3 * KEPT_ROUNDS + 1


def test_forgotten_rounds_stay_in_the_counts_by_window(tmp_path):
    with a_state(tmp_path) as state:
        rounds = KEPT_ROUNDS + 3 * FORGOTTEN_TOGETHER - 1
        for number in range(rounds):
            a_round(
                state, number, windows={"t": Tally((number // 10,), (2,), (1,), (20,), {0: number})}, lost=number % 2
            )
        history = state.history()
        assert history.forgotten.lost == {TopicPartition("t", 0): FORGOTTEN_TOGETHER}
        assert history.forgotten.commit.offsets == {TopicPartition("t", 0): 4 * FORGOTTEN_TOGETHER}
        assert [each.plan.number for each in history.rounds] == list(range(2 * FORGOTTEN_TOGETHER, rounds))
        whole = history.windows()["t"]
        assert sum(whole.rows) == 2 * rounds and sum(whole.dead) == rounds
        assert whole.windows == tuple(range(-(-rounds // 10))) and whole.latest == {0: rounds - 1}


def test_a_sum_whose_rounds_were_not_removed_yet_counts_nothing_twice(tmp_path):
    with a_state(tmp_path) as state:
        for number in range(4):
            a_round(state, number, windows={"t": Tally((0,), (2,), (0,), (20,))})
        whole = state.history().windows()
        at_two = Commit.from_json(json.loads(state.store.read("_ottla/commit-0000000002.json")))
        ledger = Forgotten(at_two, {"t": Tally((0,), (6,), (0,), (60,))})
        state.store.create("_ottla/forgot-0000000002.json", json.dumps(ledger.to_json()).encode())
        assert state.history().windows() == whole
        assert [each.plan.number for each in state.history().rounds] == [3]


class Busy:
    """A store in which a loader commits and forgets rounds right after another process's n-th listing."""

    def __init__(self, state, listing):
        self._state = state
        self._listings_left = listing
        self.url = state.store.url

    def entries(self, prefix, *, deep=True):
        found = self._state.store.entries(prefix, deep=deep)
        self._listings_left -= 1
        if not self._listings_left:
            for number in range(KEPT_ROUNDS, KEPT_ROUNDS + FORGOTTEN_TOGETHER):
                a_round(self._state, number, windows={"t": Tally((0,), (2,), (0,), (20,))})
        return found

    def read(self, name):
        return self._state.store.read(name)


@pytest.mark.parametrize("listing", [1, 2, 3])
def test_a_history_read_while_rounds_are_committed_and_forgotten_is_whole(tmp_path, listing):
    with a_state(tmp_path) as state:
        for number in range(KEPT_ROUNDS):
            a_round(state, number, windows={"t": Tally((0,), (2,), (0,), (20,))})
        history = LakeRecords(Busy(state, listing)).history()
    numbers = [each.plan.number for each in history.rounds]
    assert numbers == list(range(history.forgotten.commit.number + 1, history.committed.number + 1))
    assert sum(history.windows()["t"].rows) == sum(history.committed.rows.values())


def test_a_round_lists_no_markers_of_which_there_may_be_very_many(tmp_path, monkeypatch):
    with a_state(tmp_path) as state:
        state.store.replace("_ottla/complete/t/date=2026-01-01.json", b"{}")
        listed = []
        entries = state.store.entries

        def noted(prefix, **how):
            listed.extend(found := entries(prefix, **how))
            return found

        monkeypatch.setattr(state.store, "entries", noted)
        for number in range(2):
            a_round(state, number)
        assert state.committed().number == 1
    assert {entry.name.rpartition("/")[0] for entry in listed} == {"_ottla"}


def test_a_lake_from_before_the_counts_has_a_history(tmp_path):
    with a_state(tmp_path) as state:
        for number in range(3):
            a_round(state, number)
        for name in ("plan", "publish", "commit"):
            state.store.remove([f"_ottla/{name}-0000000000.json"])
        assert state.history().forgotten is None
        state.store.remove(["_ottla/publish-0000000001.json"])
        assert state.history().forgotten.commit.number == 1


def test_a_loader_that_lost_the_lake_while_it_published_shows_nothing(tmp_path, monkeypatch):
    with a_state(tmp_path) as state:
        publication = a_publication(state)
        create = state.store.create

        def slow(name, body):
            created = create(name, body)
            (tmp_path / "_ottla" / "lock").unlink()  # as if the lease ran out while the store took its time
            return created

        monkeypatch.setattr(state.store, "create", slow)
        with pytest.raises(LakeRefused, match="start again"):
            state.write_publication(publication)
