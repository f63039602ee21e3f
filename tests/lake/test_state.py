import os
import subprocess
import sys

import pytest

from ottla.lake.layout import Layout
from ottla.lake.plans import Commit, Held, LoadPlan, Publication, RangeCount, WrittenFile, named_files
from ottla.lake.shape import Shape
from ottla.lake.state import KEPT_ROUNDS, LakeState
from ottla.lake.stores import LakeRefused, open_store
from ottla.spark.plan import OffsetRange

SPAN = OffsetRange("t", 0, 0, 2, b"0123456789abcdef")
SHAPE = Shape()


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
        files.append(WrittenFile("t", f"{folder}{name}", ("1970-01-01",), 1, size, (Held(0, 1, 0, 1),)))
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
    hold = "import sys; from ottla.lake.state import LakeState; from ottla.lake.stores import open_store; s = LakeState(open_store(sys.argv[1])); print('held', flush=True); sys.stdin.read()"  # noqa: E501
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


def test_a_lake_keeps_its_layout_and_its_loaders_name(tmp_path):
    with a_state(tmp_path) as state:
        name = state.settle(SHAPE)
    with a_state(tmp_path) as state:
        assert state.settle(SHAPE) == name
        with pytest.raises(LakeRefused, match="the lake has values bytes, not json"):
            state.settle(Shape(values="json"))
        with pytest.raises(LakeRefused, match="the lake has partition by day, not none"):
            state.settle(Shape(layout=Layout(())))


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


def test_old_rounds_are_forgotten_and_the_last_ones_kept(tmp_path):
    with a_state(tmp_path) as state:
        for number in range(KEPT_ROUNDS + 5):
            publication = Publication(LoadPlan(number, (SPAN,)), (), (), (RangeCount(SPAN, 2, 2),))
            state.write_plan(publication.plan)
            state.write_publication(publication)
            state.write_commit(state.committed().after(publication), publication)
        assert state.committed().number == KEPT_ROUNDS + 4
        names = [entry.name for entry in state.store.entries("_ottla/") if entry.name.endswith(".json")]
        assert len(names) == 3 * KEPT_ROUNDS


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
