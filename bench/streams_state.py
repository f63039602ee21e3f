"""State of a million keys in memory and on disk: rates, memory of the process, seconds to go on after a restart.

`python -m bench.streams_state [KEYS]`. Each line is of a process of its own; rates are for a second of processor
time.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.rig import Rig
from ottla.client.blocking.runs import RunProducer
from ottla.stores.local import LocalStore
from ottla.streams import TEXT, StreamsBuilder, Topology
from ottla.streams.connection import ClusterConnection
from ottla.streams.engine.task import Task
from ottla.streams.layout import layout
from ottla.streams.restoring import restore
from ottla.streams.sending import BatchSending
from ottla.streams.state.files import Step
from ottla.streams.state.folder import NOTHING, StateFolder
from ottla.streams.stores.disk import DISK, MEMORY, database
from ottla.streams.topics import prepared
from ottla.streams.values import Input, Place

KEYS = 1_000_000
MEASURED = 300_000
BATCH = 500


def counting() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("a").group_by_key().count(store="counts").to_stream().map_values(str).to("out")
    return builder.build()


def rate(task: Task, numbers: list[int]) -> float:
    """Records for a second of processor time."""
    records = [Input(Place("a", 0, at), b"key-%010d" % number, b"x", at) for at, number in enumerate(numbers)]
    begin = time.process_time()
    for at in range(0, len(records), BATCH):
        task.feed(*records[at : at + BATCH])
        task.take(0)
    return len(records) / (time.process_time() - begin)


def resident_mb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def fill(stores: str, keys: int, folder: str) -> str:
    """Count each key once, then random ones; the state is left in the folder."""
    task = Task(counting(), loops_back=False, rows=database(stores))
    before = resident_mb()
    filled = rate(task, list(range(keys)))
    used = resident_mb() - before
    spread = rate(task, random.Random(1).sample(range(keys), min(keys, MEASURED)))
    few = rate(task, random.Random(2).choices(range(keys // 200), k=MEASURED))
    files = StateFolder(LocalStore(Path(folder)), "0/0")
    entries = {"counts": dict(task.stores["counts"].entries())}
    files.write(Step(0, 0), NOTHING, entries, task.stores, {}, {})
    return f"new keys {filled:,.0f}/s, any key {spread:,.0f}/s, few keys {few:,.0f}/s, state {used:,.0f} MB"


def from_files(stores: str, keys: int, folder: str) -> str:
    task = Task(counting(), loops_back=False, rows=database(stores))
    return _restored(
        task, keys,
        lambda: StateFolder(LocalStore(Path(folder)), "0/0").newest(task.stores, task.restore),
    )  # fmt: skip


def from_changelog(stores: str, keys: int, address: str) -> str:
    topology, where = counting(), ClusterConnection(address)
    with where.admin() as admin:
        plan = prepared(admin, topology, "app", -1)
    task = Task(topology, loops_back=False, rows=database(stores))
    return _restored(task, keys, lambda: restore(where, plan, {(0, 0): task}))


def _restored(task: Task, keys: int, bring: Callable[[], object]) -> str:
    before, begin, used = resident_mb(), time.monotonic(), time.process_time()
    bring()
    seconds, cpu = time.monotonic() - begin, time.process_time() - used
    assert len(task.stores["counts"]) == keys
    return f"{seconds:.1f} s ({cpu:.1f} s of processor time), {resident_mb() - before:,.0f} MB"


def write_changelog(address: str, keys: int) -> None:
    with ClusterConnection(address).admin() as admin:
        for topic in ("a", "out"):
            admin.create_topic(topic, 1)
        plan = prepared(admin, counting(), "app", -1)
    assert plan == layout(counting(), "app", {"a": 1})
    with RunProducer(address) as producer:
        sending = BatchSending(producer)
        for number in range(keys):
            sending.add(plan.changelog("counts"), b"key-%010d" % number, b"\0\0\0\0\0\0\0\1", number, partition=0)
        sending.send()


PHASES: dict[str, Callable[[str, int, str], str]] = {
    "processed": fill, "from state files": from_files, "from the changelog": from_changelog,
}  # fmt: skip


def main() -> None:
    if len(sys.argv) > 2:
        _, phase, stores, keys, place = sys.argv
        print(PHASES[phase](stores, int(keys), place))
        return
    count = sys.argv[1] if len(sys.argv) > 1 else str(KEYS)
    with tempfile.TemporaryDirectory(prefix="streams-state-") as folder:
        rig = Rig(Path(folder))
        try:
            write_changelog(address := rig.broker("ottla").address, int(count))
            for stores in (MEMORY, DISK):
                for phase in PHASES:
                    place = address if phase == "from the changelog" else f"{folder}/{stores}"
                    command = [sys.executable, "-m", "bench.streams_state", phase, stores, count, place]
                    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                    print(f"{stores}, {phase}: {printed.strip()}", flush=True)
        finally:
            rig.stop()


if __name__ == "__main__":
    main()
