"""A run begins with long test files, and no room of long tests has all its files at the end."""

from __future__ import annotations

import re

import pytest
from tests.conftest import LONG_ROOMS, ROOT, begin_with_long_rooms
from tests.workers import APART, LONGEST, needs_spark

pytest_plugins = ["pytester"]

FILES = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py"))]


def is_long(file: str) -> bool:
    return any(f"/tests/{room}/" in file for room in LONG_ROOMS)


def test_every_file_is_there_once_and_long_ones_come_first():
    order = begin_with_long_rooms(FILES)
    assert sorted(order) == sorted(FILES)
    kinds = [is_long(file) for file in order]
    assert kinds == sorted(kinds, reverse=True)
    assert 0 < sum(kinds) < len(kinds)


def test_long_rooms_come_in_turn():
    order = begin_with_long_rooms(
        ["/tests/lake/1", "/tests/lake/2", "/tests/wire/1", "/tests/server/1", "/tests/server/2"]
    )
    assert order == ["/tests/lake/1", "/tests/server/1", "/tests/lake/2", "/tests/server/2", "/tests/wire/1"]


def test_each_long_room_is_one_of_ours():
    assert all((ROOT / "tests" / room).is_dir() for room in LONG_ROOMS)


def test_the_longest_files_are_there_and_come_before_all_others():
    order = [file.removeprefix(f"{ROOT}/") for file in begin_with_long_rooms(FILES)]
    assert order[: len(LONGEST)] == list(LONGEST)
    assert set(APART) <= set(order)


def test_a_spark_file_is_known_by_its_mark_or_by_the_session_that_it_takes(tmp_path):
    file = tmp_path / "test_it.py"
    for text, spark in [
        ("pytestmark = pytest.mark.spark\n", True),
        ("def test_it(spark):\n", True),
        ("def test_it(topics, spark, tmp_path):\n", True),
        ("def test_spark(topics):\n", False),
        ('"""Nothing of spark."""\n', False),
    ]:
        file.write_text(text)
        needs_spark.cache_clear()
        assert needs_spark(file) is spark, text


@pytest.mark.slow
def test_workers_share_spark_files_and_others_and_run_each_test_once(pytester, monkeypatch):
    """A worker begins with one kind while both are left."""
    for kind, argument in (("a", ""), ("b", "spark")):
        for number in range(4):
            tests = [f"def test_{at}({argument}): time.sleep(0.01)" for at in range(3)]
            pytester.makepyfile(**{f"test_{kind}{number}": "\n".join(["import time", *tests])})
    pytester.makeconftest(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import pytest\nfrom tests.workers import pytest_xdist_make_scheduler\n"
        "@pytest.fixture(scope='session')\ndef spark(): return None\n"
    )
    done = pytester.runpytest_subprocess(
        "-n2", "--dist", "loadfile", "--no-loadscope-reorder", "-v", "-p", "no:cacheprovider"
    )
    done.assert_outcomes(passed=24)
    first = {}
    for worker, file in re.findall(r"\[(gw\d)\].*PASSED test_(\w)\d\.py", done.stdout.str()):
        first.setdefault(worker, file)
    assert sorted(first.values()) == ["a", "b"]
