"""The page of the race names the commit that ran, and the hot path is measured again once it has changed often."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bench import freshness as freshness_module
from bench.brokers import ROOT
from bench.freshness import COMPARISONS, HOT_PATH, PAGE, Freshness, changes_since, freshness, raced_commit
from bench.report import INTRODUCTION, WITH_CHANGES, commit_here

PATHS = ("src/wire", "src/log.py")


class Repository:
    """A git repository in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        settings = ("user.name=a", "user.email=a@example.org", "commit.gpgsign=false")
        command = ["git", "-C", self.folder, *(part for setting in settings for part in ("-c", setting)), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, **files: str) -> str:
        """Write files, named by their paths with `__` for a slash, and commit them; return the commit."""
        for name, text in files.items():
            path = self.folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_commits_that_change_the_hot_path_are_counted_the_newest_first(repository: Repository) -> None:
    raced = repository.commit(src__wire__frame="a = 1\n", src__log="b = 1\n", other="c = 1\n")
    assert changes_since(raced, repository.folder, PATHS) == []
    first = repository.commit(src__wire__frame="a = 2\n")
    repository.commit(other="c = 2\n")
    second = repository.commit(src__log="b = 2\n", other="c = 3\n")
    third = repository.commit(src__wire__more="d = 1\n")
    assert changes_since(raced[:7], repository.folder, PATHS) == [third, second, first]
    assert changes_since(second, repository.folder, PATHS) == [third]


def test_a_file_that_is_deleted_or_renamed_is_a_change(repository: Repository) -> None:
    raced = repository.commit(src__log="b = 1\n", src__wire__frame="a = 1\n")
    repository.git("mv", "src/wire/frame.py", "src/wire/frames.py")
    renamed = repository.commit()
    repository.git("rm", "-q", "src/log.py")
    deleted = repository.commit()
    assert changes_since(raced, repository.folder, PATHS) == [deleted, renamed]


def test_other_words_in_docstrings_and_comments_are_no_change(repository: Repository) -> None:
    before = '"""A log."""\n\nclass Log:\n    """One log."""\n    size: int\n    """In bytes."""\n\nx = "text"\n'
    raced = repository.commit(src__log=before)
    repository.commit(src__log=before.replace("One log.", "A log of one partition.").replace("In bytes", "Bytes"))
    repository.commit(src__log=before.replace('x = "', '# A comment\nx  =  "'))
    assert changes_since(raced, repository.folder, PATHS) == []
    changed = repository.commit(src__log=before.replace('x = "text"', 'x = "other"'))
    assert changes_since(raced, repository.folder, PATHS) == [changed]


def test_another_name_of_a_class_is_no_change_and_another_call_is_one(repository: Repository) -> None:
    before = "from a import Place, read\n\ndef at(place: Place) -> Place:\n    return Place(read(place))\n"
    raced = repository.commit(src__log=before)
    repository.commit(src__log=before.replace("Place", "Spot").replace("Spot, read", "read, Spot"))
    assert changes_since(raced, repository.folder, PATHS) == []
    changed = repository.commit(src__log=before.replace("Place", "Spot").replace("read", "pread"))
    assert changes_since(raced, repository.folder, PATHS) == [changed]
    swapped = repository.commit(src__log=before.replace("return Place", "return Other").replace("read", "pread"))
    assert changes_since(changed, repository.folder, PATHS) == [swapped]


def test_another_name_of_a_local_variable_is_no_change_and_another_variable_is_one(repository: Repository) -> None:
    before = "def at(place):\n    said = read(place)\n    told = place\n    return said\n"
    raced = repository.commit(src__log=before)
    repository.commit(src__log=before.replace("said", "text"))
    repository.commit(src__log=before.replace("place", "spot"))
    assert changes_since(raced, repository.folder, PATHS) == []
    for other in ("return told", "return place", "return read", "return said(told)"):
        repository.git("reset", "-q", "--hard", raced)
        changed = repository.commit(src__log=before.replace("return said", other))
        assert changes_since(raced, repository.folder, PATHS) == [changed]


def test_what_a_merge_brings_in_is_counted_once(repository: Repository) -> None:
    raced = repository.commit(src__log="b = 1\n", src__wire__frame="a = 1\n")
    repository.git("checkout", "-q", "-b", "side")
    side = repository.commit(src__log="b = 2\n")
    repository.git("checkout", "-q", "main")
    ours = repository.commit(src__wire__frame="a = 2\n")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    assert sorted(changes_since(raced, repository.folder, PATHS) or ()) == sorted([side, ours])


def test_nothing_is_counted_where_the_history_is_not_here(repository: Repository, tmp_path: Path) -> None:
    raced = repository.commit(src__log="b = 1\n")
    repository.commit(src__log="b = 2\n")
    shallow, copy = tmp_path / "shallow", tmp_path / "copy"
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.folder}", str(shallow))
    assert changes_since(raced, shallow, PATHS) is None
    assert changes_since("0123abc", repository.folder, PATHS) is None
    repository.git("checkout", "-q", "--orphan", "elsewhere")
    elsewhere = repository.commit(src__log="b = 3\n")
    repository.git("checkout", "-q", "main")
    assert changes_since(elsewhere, repository.folder, PATHS) is None
    copy.mkdir()
    (copy / ".git").write_text("gitdir: /nowhere\n")  # so that git does not look into the folders above
    assert changes_since(raced, copy, PATHS) is None and commit_here(copy) == ""


def test_code_that_differs_from_its_commit_is_said_to(repository: Repository) -> None:
    commit = repository.commit(src__log="b = 1\n", notes="x = 1\n")[:7]
    (repository.folder / "notes.py").write_text("x = 2\n")
    assert commit_here(repository.folder) == commit
    (repository.folder / "src" / "new.py").write_text("c = 1\n")
    assert commit_here(repository.folder) == commit + WITH_CHANGES


def test_every_place_on_the_hot_path_exists() -> None:
    assert [path for path in HOT_PATH if not (ROOT / path).exists()] == []


def test_a_page_that_is_written_names_its_commit() -> None:
    facts = {"commit": "0123abc", "date": "2026-01-01", "librdkafka": "2", "kafka": "4"}
    assert raced_commit(INTRODUCTION.format(**facts)) == "0123abc"


def test_a_comparison_with_an_earlier_commit_measures_too_and_does_not_stand_in_for_the_race(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced = repository.commit(src__log="b = 0\n")
    commits = [repository.commit(src__log=f"b = {number}\n") for number in range(1, 7)]
    page = f"Commit `{raced}`, 2026-01-01"
    compared = f"Commit {commits[3][:8]} beside {raced}, on two cores"

    def found(comparisons: str) -> Freshness:
        one = freshness(page, comparisons, repository.folder, PATHS)
        assert one is not None
        return one

    monkeypatch.setattr(freshness_module, "MOST_CHANGES", 5)
    assert (found("").unmeasured, found("").is_due) == (commits[::-1], True)
    assert found(f"Other words, and commit {commits[3]} beside") == found("")
    assert found("Commit 0123abc beside 0123abd") == found("")
    assert (found(compared).unmeasured, found(compared).is_due) == ([commits[5], commits[4]], False)
    monkeypatch.setattr(freshness_module, "MOST_SINCE_RACE", 5)
    assert found(compared).is_due


def test_the_hot_path_was_measured_since_it_changed_often() -> None:
    found = freshness(PAGE.read_text(), COMPARISONS.read_text())
    if found is None:
        pytest.skip("the repository's history is not here, or lacks the commit that was raced")
    assert not found.is_due, "see `python -m bench.freshness`; run `make bench`, or `python -m bench.beside TREE`"
