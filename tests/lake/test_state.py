import os
import subprocess
import sys

import pytest

from ottla.lake.plans import Commit, LakeFile, LoadPlan, Publication, RangeCount
from ottla.lake.state import KEPT_ROUNDS, LakeState
from ottla.lake.stores import LakeRefused
from ottla.spark.plan import OffsetRange

SPAN = OffsetRange("t", 0, 0, 2, b"0123456789abcdef")


def a_publication(state, number=0):
    plan = LoadPlan(number, (SPAN,))
    state.write_plan(plan)
    temporary = state.temporary(plan)
    files = []
    for name in ("x", "y"):
        (state.directory / temporary / name).write_text(name)
        files.append(LakeFile(f"{temporary}/{name}", f"topic=t/hour=01/{name}.parquet", 1, 1, 0, 1))
    return Publication(plan, tuple(files), (), (RangeCount(SPAN, 2, 2),))


def visible(state):
    return sorted(path.name for path in state.directory.glob("topic=*/**/*.parquet"))


def test_a_second_loader_on_the_directory_is_refused(tmp_path):
    with LakeState(tmp_path), pytest.raises(LakeRefused, match=f"another loader .process {os.getpid()}. is at work"):
        LakeState(tmp_path)
    LakeState(tmp_path).close()


def test_a_loader_killed_lets_the_next_one_in(tmp_path):
    hold = "import sys, pathlib; from ottla.lake.state import LakeState; s = LakeState(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"  # noqa: E501
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LakeRefused, match=f"process {holder.pid}"):
            LakeState(tmp_path)
        holder.kill()
        holder.wait()
    LakeState(tmp_path).close()


def test_an_empty_lake_stands_at_nothing_and_has_nothing_to_finish(tmp_path):
    with LakeState(tmp_path) as state:
        assert state.committed() == Commit()
        assert state.unfinished() is None


def test_nothing_is_visible_before_the_publication_is_revealed(tmp_path):
    with LakeState(tmp_path) as state:
        publication = a_publication(state)
        assert state.unfinished() == publication.plan
        state.write_publication(publication)
        assert visible(state) == []
        assert state.unfinished() == publication
        state.reveal(publication.files)
        assert visible(state) == ["x.parquet", "y.parquet"]


def test_a_reveal_that_was_cut_short_is_carried_through(tmp_path):
    with LakeState(tmp_path) as state:
        publication = a_publication(state)
        state.write_publication(publication)
        state.reveal(publication.files[:1])
    with LakeState(tmp_path) as state:
        left = state.unfinished()
        assert left == publication
        state.reveal(left.files)
        state.reveal(left.files)
        state.write_commit(state.committed().after(left))
        assert visible(state) == ["x.parquet", "y.parquet"]
        assert state.unfinished() is None
        assert not (state.home / "tmp" / "0").exists()


def test_a_plan_done_over_starts_with_an_empty_temporary_directory(tmp_path):
    with LakeState(tmp_path) as state:
        publication = a_publication(state)
        temporary = tmp_path / state.temporary(publication.plan)
        assert list(temporary.iterdir()) == []


def test_a_file_that_somebody_removed_is_missed(tmp_path):
    with LakeState(tmp_path) as state:
        publication = a_publication(state)
        (tmp_path / publication.files[0].temporary).unlink()
        with pytest.raises(LakeRefused, match="is missing"):
            state.reveal(publication.files)


def test_a_half_written_state_file_is_not_taken_for_one(tmp_path):
    with LakeState(tmp_path) as state:
        (state.home / "commit-0000000003.tmp").write_text('{"form')
        assert state.committed() == Commit()


def test_old_rounds_are_forgotten_and_the_last_ones_kept(tmp_path):
    with LakeState(tmp_path) as state:
        for number in range(KEPT_ROUNDS + 5):
            publication = Publication(LoadPlan(number, (SPAN,)), (), (), (RangeCount(SPAN, 2, 2),))
            state.write_plan(publication.plan)
            state.write_publication(publication)
            state.write_commit(state.committed().after(publication))
        assert state.committed().number == KEPT_ROUNDS + 4
        assert len(list(state.home.glob("*-*.json"))) == 3 * KEPT_ROUNDS
