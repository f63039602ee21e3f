"""The loader is stopped at every step that touches the lake, and killed as a process: it still loads exactly once."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from killed_loader import Killed
from tests.lake.campaign.processes import command_of, family, kill

from ottla import lake
from ottla.records.reader import Record

pytestmark = pytest.mark.slow

TIME = 1_356_998_400_000
HOUR = 3_600_000


def visible(directory: Path) -> list[tuple[str, int, int]]:
    """Every row of every visible file, sorted; readers skip names that begin with an underscore or a dot."""
    rows = []
    for path in directory.glob("topic=*/**/*"):
        if path.is_file() and path.name[0] not in "_.":
            table = pq.read_table(path, columns=["partition", "offset"], partitioning=None)
            topic = path.relative_to(directory).parts[0].removeprefix("topic=")
            rows += [(topic, *pair) for pair in zip(*table.to_pydict().values(), strict=True)]
    return sorted(rows)


def fill(topics, topic, count):
    for partition in (0, 1):
        records = [Record(0, TIME + at % 3 * HOUR, b"k", b"%d" % at) for at in range(count)]
        topics.fill(topic, partition, records)


class Fuse:
    """Raises at the n-th call of the functions that it wraps."""

    def __init__(self, calls):
        self.left = calls

    def before(self, call):
        def burning(*arguments, **named):
            self.left -= 1
            if self.left == 0:
                raise Killed
            return call(*arguments, **named)

        return burning


def test_a_loader_that_ends_at_any_step_is_made_good_by_the_next(bootstrap, topics, tmp_path, monkeypatch):
    topic = topics.new(2)
    fill(topics, topic, 20)
    everything = sorted((topic, partition, at) for partition in (0, 1) for at in range(20))

    def load(directory):
        lake.load([topic], to=directory, bootstrap=bootstrap, on="local", tell=lambda _: None, max_offsets=25)

    for step in range(1, 200):
        directory = tmp_path / str(step)
        fuse = Fuse(step)
        with monkeypatch.context() as patch:
            for name in ("rename", "link", "fsync", "mkdir"):
                patch.setattr(os, name, fuse.before(getattr(os, name)))
            with contextlib.suppress(Killed):
                load(directory)
        seen = visible(directory)
        assert len(seen) == len(set(seen)), f"a row is in two files after step {step}"
        load(directory)
        assert visible(directory) == everything, f"after step {step}"
        if fuse.left > 0:
            break
    assert step > 20, "the fuse never burned: nothing was proved"


def start_loader(bootstrap, topic, directory, on):
    code = "import sys; from ottla.lake.commands.load import command; sys.exit(command(sys.argv[1:]))"
    arguments = ["load", topic, "--to", str(directory), "-b", bootstrap, "--max-offsets", "3000", "--on", on]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(holds, process):
    deadline = time.monotonic() + 120
    while not holds() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize(
    ("on", "victim"),
    [
        ("local", "everything"),
        pytest.param("spark", "driver", marks=pytest.mark.spark),
        pytest.param("spark", "everything", marks=pytest.mark.spark),
        pytest.param("spark", "a worker", marks=pytest.mark.spark),
    ],
)
def test_kill_9_at_any_moment_loses_and_repeats_nothing(bootstrap, topics, tmp_path, on, victim):
    topic = topics.new(2)
    for _ in range(10):
        fill(topics, topic, 1500)
    directory = tmp_path / "lake"
    everything = sorted((topic, partition, at) for partition in (0, 1) for at in range(15_000))
    process = start_loader(bootstrap, topic, directory, on)
    wait_for(lambda: any((directory / "_ottla").glob("plan-*.json")), process)
    time.sleep(0 if victim == "a worker" else random.uniform(0, 6 if on == "spark" else 1))
    descendants = family(process.pid)
    if victim == "a worker":
        seen_workers: list[int] = []
        wait_for(lambda: seen_workers.extend(workers(process.pid)) or seen_workers, process)
        for worker in seen_workers[:1]:
            kill(worker)
    else:
        os.kill(process.pid, signal.SIGKILL)
        if victim == "everything":
            for pid in descendants:
                kill(pid)
        process.wait()
    seen = visible(directory)
    assert len(seen) == len(set(seen))
    if victim == "a worker" or process.returncode == 0:
        output, _ = process.communicate(timeout=300)
    if process.returncode != 0:
        second = start_loader(bootstrap, topic, directory, on)
        output, _ = second.communicate(timeout=300)
        assert second.returncode == 0, output
    assert "adds up" in output or "nothing new" in output
    assert visible(directory) == everything


def workers(pid: int) -> list[int]:
    """Spark's Python workers; without --continuous the loader may have ended already."""
    return [child for child in family(pid) if "pyspark" in command_of(child)]
