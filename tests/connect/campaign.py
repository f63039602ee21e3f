"""`make connect-campaign`: connectors from a source over a topic into a sink, under kill -9 of workers and broker.

All scenes run at once in a group of two workers that deliver exactly once. While each is fed piece by piece, workers
and the broker are killed, and the other sides fail for a while: databases are killed as well. In the end each topic
holds what its source had, once, and each sink what its guarantee says. `--only NAME` runs one scene, again for another
one. `--minutes M` is another campaign: twenty connectors for so long, of which one at a time is broken; no other one
may notice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.connect.scenes import Config, Databases, Directory, Files, Http, Scene, committed
from tests.connect.scenes_capture import MariaDb, Postgres
from tests.connect.scenes_servers import S3, Search
from tests.lake.campaign.processes import BrokerProcess, Stuck, until
from tests.ports import free_port

STRING = "org.apache.kafka.connect.storage.StringConverter"
AWAY_S = 1.5
"""The time for which another side fails."""
SCENES: tuple[type[Scene], ...] = (Files, Directory, Databases, Http, S3, Search, Postgres, MariaDb)
"""A new connector adds its scene here."""
FAULTS = ("worker", "broker", "other side", "worker")
"""Each four faults are these, in some order."""


class WorkerProcess:
    """A worker of the group, which comes back after a kill."""

    def __init__(self, folder: Path, name: str, bootstrap: str) -> None:
        properties = {
            "bootstrap.servers": bootstrap, "group.id": "campaign", "config.storage.topic": "campaign-configs",
            "status.storage.topic": "campaign-status", "offset.storage.topic": "campaign-offsets",
            "offset.storage.partitions": "2", "status.storage.partitions": "1", "key.converter": STRING,
            "value.converter": STRING, "session.timeout.ms": "6000", "heartbeat.interval.ms": "500",
            "offset.flush.interval.ms": "500", "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{free_port()}", "consumer.session.timeout.ms": "6000",
        }  # fmt: skip
        self.url, self._log = properties["listeners"], folder / f"{name}.log"
        file = folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._command = [sys.executable, "-m", "ottla", "connect", "start", str(file)]
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        self.process.kill()
        self.process.wait()

    def ask(self, path: str, body: object = None, method: str = "GET") -> Any:
        """The answer of a call; None where there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                content = answer.read()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None
        return json.loads(content) if answer.headers["content-type"] == "application/json" else content.decode()


@dataclass
class Rig:
    """A broker and two workers in a folder."""

    folder: Path
    told: Callable[[str], object] = print
    workers: list[WorkerProcess] = field(default_factory=list)

    def __enter__(self) -> Rig:
        self.broker = BrokerProcess(self.folder, free_port())
        self.workers = [WorkerProcess(self.folder, f"worker-{number}", self.broker.bootstrap) for number in range(2)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()
        self.broker.kill()

    def create(self, name: str, config: Config) -> None:
        """Make a connector, by any worker."""
        path = f"/connectors/{name}/config"
        until(lambda: self.workers[0].ask(path, {"name": name, **config}, "PUT"), f"the connector {name}")


def siege(rig: Rig, scenes: Sequence[Scene], *, kills: int, rows: int, chance: random.Random) -> Counter[str]:
    """Feed all scenes piece by piece, with a fault amid each piece; what was done."""
    done: Counter[str] = Counter()
    size, next_row = max(rows // (kills + 1), 1), 1
    faults = [fault for _ in range(0, kills, len(FAULTS)) for fault in chance.sample(FAULTS, len(FAULTS))]
    for fault in faults[:kills]:
        before = [scene.count() for scene in scenes]
        for scene in scenes:
            scene.feed(range(next_row, next_row + size))
        next_row += size
        until(partial(moves, scenes, before), "records on their way")
        done[fault] += 1
        rig.told(f"{fault}: {', '.join(f'{scene.name} {scene.count()} of {len(scene.fed)}' for scene in scenes)}")
        if fault == "worker":
            worker = chance.choice(rig.workers)
            worker.kill()
            worker.start()
        elif fault == "broker":
            rig.broker.kill()
            rig.broker.start()
        else:
            with contextlib.ExitStack() as away:
                for scene in scenes:
                    away.enter_context(scene.away())
                time.sleep(AWAY_S)
    for scene in scenes:
        scene.feed(range(next_row, next_row + size))
    return done


def moves(scenes: Sequence[Scene], before: Sequence[int]) -> bool:
    """True once a sink has more than before."""
    return any(scene.count() > at for scene, at in zip(scenes, before, strict=True))


def able(names: Sequence[str], told: Callable[[str], object]) -> list[type[Scene]]:
    """The scenes that are wanted and can run here; SystemExit where one was asked for and cannot."""
    found = []
    for kind in (kind for kind in SCENES if not names or kind.name in names):
        if not (missing := kind.lacks()):
            found.append(kind)
        elif names:
            raise SystemExit(f"{kind.name}: this machine lacks {missing}")
        else:
            told(f"{kind.name}: left out, as this machine lacks {missing}")
    return found


def kills(folder: Path, *, names: Sequence[str], kills: int, rows: int, seed: int) -> list[str]:
    """Run the scenes; the differences."""
    differences: list[str] = []
    with contextlib.ExitStack() as ending, Rig(folder) as rig:  # workers end before the other sides do
        scenes: list[Scene] = []
        for kind in able(names, rig.told):
            scenes.append(kind(folder))
            ending.callback(scenes[-1].close)
        for scene in scenes:
            source, sink = scene.connectors()
            rig.create(f"{scene.name}-source", source | {"exactly.once.support": scene.support})
            rig.create(f"{scene.name}-sink", sink)
        done = siege(rig, scenes, kills=kills, rows=rows, chance=random.Random(seed))
        for scene in scenes:
            with contextlib.suppress(Stuck):
                until(scene.is_complete, f"all of {scene.name}")
        for scene in scenes:
            found = scene.differences(rig.broker.bootstrap)
            rig.told(f"{scene.name}: {len(scene.fed)} records, {'equal' if not found else '; '.join(found)}")
            differences += [f"{scene.name}: {each}" for each in found]
        rig.told(f"faults: {dict(done)}")
    return differences


COUNT = 20


class Neighbours:
    """Twenty connectors that read a file each."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.files = [rig.folder / f"in-{number}.txt" for number in range(COUNT)]
        self.fed: list[list[str]] = [[] for _ in self.files]

    def create(self) -> None:
        for number, file in enumerate(self.files):
            file.touch()
            config = {"connector.class": "FileStreamSource", "file": str(file), "topic": f"topic-{number}"}
            self._rig.create(f"c{number}", config)
            self.feed(number)
        until(partial(self.have, range(COUNT)), "the first line of each")

    def feed(self, number: int) -> None:
        line = f"line {len(self.fed[number])}"
        with self.files[number].open("a") as file:
            file.write(f"{line}\n")
        self.fed[number].append(line)

    def have(self, numbers: Sequence[int]) -> bool:
        """True if the topics of these connectors hold their lines, once and in order."""
        return all(self._read(number) == self.fed[number] for number in numbers)

    def fails(self, number: int) -> bool:
        """True if no task of the connector runs."""
        status = self._rig.workers[0].ask(f"/connectors/c{number}/status")
        return bool(status) and not any(task["state"] == "RUNNING" for task in status["tasks"])

    def disturb(self, victim: int) -> None:
        """Break one, have the others work meanwhile, and mend it."""
        file, others = self.files[victim], [number for number in range(COUNT) if number != victim]
        aside = file.with_suffix(".aside")
        file.rename(aside)
        file.mkdir()  # the task fails to open it, again and again
        until(partial(self.fails, victim), "the fault of the victim")
        for number in others:
            self.feed(number)
        until(partial(self.have, others), "the others' lines")
        file.rmdir()
        aside.rename(file)
        self.feed(victim)
        until(partial(self.have, [victim]), "the victim's line")

    def _read(self, number: int) -> list[str]:
        found = committed(self._rig.broker.bootstrap, f"topic-{number}")
        return [(record.value or b"").decode() for record in found]


def neighbours(folder: Path, *, minutes: float, seed: int) -> list[str]:
    """Twenty connectors, each of which is broken and mended in its turn: those that noticed the fault of another."""
    chance, end = random.Random(seed), time.monotonic() + 60 * minutes
    broken: Counter[int] = Counter()
    noticed: list[str] = []
    with Rig(folder) as rig:
        beside = Neighbours(rig)
        beside.create()
        while time.monotonic() < end:
            least = min(broken[each] for each in range(COUNT))
            victim = chance.choice([each for each in range(COUNT) if broken[each] == least])
            before = restarts(rig)
            beside.disturb(victim)
            broken[victim] += 1
            noticed += others_that_noticed(before, restarts(rig), victim)
        least = min(broken[each] for each in range(COUNT))
        rig.told(f"{broken.total()} faults, at least {least} in each connector, {sum(map(len, beside.fed))} lines")
    return noticed


def restarts(rig: Rig) -> Counter[str]:
    """The restarts of each task, on whichever worker."""
    found: Counter[str] = Counter()
    start = 'ottla_job_restarts_total{job="'
    for worker in rig.workers:
        for line in (worker.ask("/metrics") or "").splitlines():
            if line.startswith(start):
                found[line.removeprefix(start).split('"')[0]] += int(line.rsplit(" ", 1)[1])
    return found


def others_that_noticed(before: Counter[str], after: Counter[str], victim: int) -> list[str]:
    """A sentence for each task that was restarted while another one was broken."""
    return [
        f"{name} was restarted {count} times while c{victim} was broken"
        for name, count in sorted((after - before).items())
        if name != f"c{victim}-0"
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make connect-campaign", description=__doc__)
    parser.add_argument("--only", action="append", choices=[kind.name for kind in SCENES], help="this scene alone")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000, help="of each scene")
    parser.add_argument("--minutes", type=float, default=0, help="twenty connectors for so long, one broken at a time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="connect-campaign-") as made:
        folder = Path(made)
        if options.minutes:
            found = neighbours(folder, minutes=options.minutes, seed=options.seed)
        else:
            found = kills(folder, names=options.only or (), kills=options.kills, rows=options.rows, seed=options.seed)
    print("\n".join(found) or "no differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
