"""Runs one query from topic to topic under kill -9 of all its parts, and checks the result."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer
from tests.lake.campaign.processes import Stuck, command_of, family, kill, until
from tests.spark.campaign.verdict import differences, records

from ottla.client.blocking import cluster as ottla
from ottla.client.blocking.admin import Admin
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError
from ottla.messages.list_transactions import ListTransactionsRequest

DRIVER, EVERYTHING, EXECUTOR, WORKER, BROKER = "driver", "everything", "executor", "worker", "broker"
KINDS = (WORKER, DRIVER, BROKER, EXECUTOR, EVERYTHING)
PROGRAM = Path(__file__).with_name("driver.py")
ROOT = Path(__file__).resolve().parents[3]
SOURCE, TARGET = "campaign-source", "campaign-target"
PARTITIONS, KEYS = 4, 997
LONGEST_AWAY_S = 4.0
IN_TRANSACTION = 0.75
"""The share of kills that are timed to meet an open transaction."""


class Cluster(Protocol):
    """Three brokers, ottla's or Apache Kafka's."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self, number: int) -> None: ...

    def start(self, number: int) -> None: ...


@dataclass(frozen=True)
class Scale:
    """The size of a campaign."""

    rows: int
    kills: int
    seed: int
    plan: str
    master: str


@dataclass
class Ended:
    """The result of a campaign."""

    done: Counter[str] = field(default_factory=Counter)
    by_itself: list[str] = field(default_factory=list)
    """Last words of drivers that ended without being killed."""
    batches: int = 0
    committed: int = 0
    uncommitted: int = 0
    differences: list[str] = field(default_factory=list)


class Campaign:
    """Feeds the source, runs drivers until one has done everything, and kills meanwhile."""

    batches_per_kill = 4
    patience_s = 600

    def __init__(self, scale: Scale, cluster: Cluster, folder: Path, tell: Callable[[str], None]) -> None:
        self.ended = Ended()
        self._scale, self._cluster, self._folder, self._tell = scale, cluster, folder, tell
        self._chance = random.Random(scale.seed)
        self._numbers = itertools.count(1)
        self._driver: subprocess.Popen[bytes]
        self._log: Path
        self._left_behind: set[int] = set()
        """Processes of drivers that were killed."""

    def run(self) -> Ended:
        """Feed, kill, let the rest be done, and judge the results."""
        self._feed()
        given = records(self._cluster.bootstrap, SOURCE, committed=True)
        self._tell(f"{len(given):,} rows in {SOURCE}")
        self.besiege()
        found = records(self._cluster.bootstrap, TARGET, committed=True)
        self.ended.committed = len(found)
        self.ended.uncommitted = len(records(self._cluster.bootstrap, TARGET, committed=False)) - len(found)
        self.ended.differences += differences(given, found)
        return self.ended

    def besiege(self) -> None:
        """Kill parts of the query as often as wanted, until a driver has done everything."""
        self._start()
        try:
            for number, kind in enumerate(self._strikes(), 1):
                self._reach(number * self.batches_per_kill)
                self._any_moment()
                self._tell(f"batch {self._batches()}: {kind}: {getattr(self, f'_strike_{kind}')()}")
                self.ended.done[kind] += 1
            self._finish()
        finally:
            self._clean_up()
        self.ended.batches = self._batches()

    def _any_moment(self) -> None:
        """Wait for a moment to kill, mostly one with an open transaction, else a random one."""
        time.sleep(self._chance.uniform(0, 1.5))
        if self._chance.random() < IN_TRANSACTION:
            with contextlib.suppress(Stuck, ClientError, ApiError), ottla.Cluster(self._cluster.bootstrap) as client:
                until(lambda: in_transaction(client), "an open transaction", 20)

    def _feed(self) -> None:
        with Admin(self._cluster.bootstrap) as admin:
            for name in (SOURCE, TARGET):
                admin.create_topic(name, PARTITIONS, 3, configs={"min.insync.replicas": "2"})
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True, "linger.ms": 20})
        for number in range(self._scale.rows):
            while True:
                try:
                    producer.produce(SOURCE, b"%d" % number, b"k%d" % (number * 7919 % KEYS))
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        if producer.flush(120):
            raise Stuck("the source could not be filled")

    def _strikes(self) -> list[str]:
        """Every kind as often as the others, in random order."""
        chosen: list[str] = []
        while len(chosen) < self._scale.kills:
            chosen += self._chance.sample(KINDS, len(KINDS))
        return chosen[: self._scale.kills]

    @property
    def _most(self) -> int:
        """Rows of a micro-batch."""
        return max(1, self._scale.rows // (self.batches_per_kill * (self._scale.kills + 1)))

    def _start(self) -> None:
        self._log = self._folder / f"driver-{next(self._numbers)}.log"
        command = self._command()
        import pyspark

        environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        with self._log.open("wb") as log:
            self._driver = subprocess.Popen(
                command,
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=environment,
                cwd=self._folder,
            )  # fmt: skip

    def _command(self) -> list[str]:
        """The command of a driver."""
        return [
            sys.executable, str(PROGRAM), self._scale.master, self._cluster.bootstrap, SOURCE, TARGET,
            str(self._folder / "checkpoint"), str(self._most), self._scale.plan,
        ]  # fmt: skip

    def _batches(self) -> int:
        """Micro-batches that Spark has noted as done."""
        folder = self._folder / "checkpoint" / "commits"
        if not folder.is_dir():
            return 0
        return max((int(each.name) + 1 for each in folder.iterdir() if each.name.isdecimal()), default=0)

    def _reach(self, batches: int) -> None:
        """Wait for `batches` micro-batches; start a driver again that has ended."""

        def reached() -> bool:
            self._revive()
            return self._batches() >= batches

        try:
            until(reached, f"micro-batch {batches}", self.patience_s)
        except Stuck as stuck:
            raise Stuck(f"{stuck}; the driver's last words: {self._said()}") from stuck

    def _finish(self) -> None:
        def finished() -> bool:
            if self._driver.poll() == 0:
                return True
            self._revive()
            return False

        until(finished, "the end of the query", self.patience_s)

    def _revive(self) -> None:
        status = self._driver.poll()
        if status is None:
            return
        if status == 0:
            raise Stuck("the query ended before all was killed that was to be: give it more rows")
        if status > 0:
            self.ended.by_itself.append(f"{self._log.name} ended with {status}: {self._said()}")
            self._tell(self.ended.by_itself[-1])
        self._start()

    def _said(self) -> str:
        """The most telling line of the driver's output, else the last one."""
        lines = self._log.read_text(errors="replace").strip().splitlines() or ["nothing"]
        telling = [line for line in lines if "NotWritten" in line or "Error" in line or "Exception" in line]
        return (telling or lines)[-1][:500]

    def _strike_driver(self) -> str:
        """Kill the driver's Python and its JVM; executors are left behind, and notice later."""
        executors = [pid for pid in family(self._driver.pid) if not _is_driver(pid)]
        self._left_behind |= set(executors)
        for pid in family(self._driver.pid):
            if _is_driver(pid):
                kill(pid)
        self._driver.kill()
        self._driver.wait()
        return f"kill -9, {len(executors)} processes left behind"

    def _strike_everything(self) -> str:
        pids = family(self._driver.pid)
        self._driver.kill()
        for pid in pids:
            kill(pid)
        self._driver.wait()
        return f"kill -9 of the driver and {len(pids)} processes below it"

    def _strike_executor(self) -> str:
        return self._kill_one("an executor", lambda command: "CoarseGrainedExecutorBackend" in command)

    def _strike_worker(self) -> str:
        return self._kill_one("a Python worker", lambda command: "daemon" in command and "python" in command)

    def _kill_one(self, noun: str, chosen: Callable[[str], bool]) -> str:
        def candidates() -> list[int]:
            return [pid for pid in family(self._driver.pid) if chosen(command_of(pid))]

        with contextlib.suppress(Stuck):
            until(lambda: candidates() or self._driver.poll() is not None, noun, 60)
        found = candidates()
        if not found:
            return f"{noun} was not there"
        kill(self._chance.choice(found))
        return f"kill -9 of {noun}, one of {len(found)}"

    def _strike_broker(self) -> str:
        number = self._chance.choice((1, 2, 3))
        self._cluster.kill(number)
        away = self._chance.uniform(0, LONGEST_AWAY_S)
        time.sleep(away)
        self._cluster.start(number)
        return f"kill -9 of broker {number}, away for {away:.1f} s and the time of a start"

    def _clean_up(self) -> None:
        """Leave no process behind."""
        mine = [*family(self._driver.pid), *self._left_behind]
        if self._driver.poll() is None:
            self._driver.kill()
            self._driver.wait()
        for pid in mine:
            if "ottla" in command_of(pid) or "spark" in command_of(pid):
                kill(pid)


def in_transaction(client: ottla.Cluster) -> bool:
    """True if some producer's transaction is open now."""
    request = ListTransactionsRequest(state_filters=["Ongoing"])
    return any(client.request(request, broker_id=broker).transaction_states for broker in client.brokers())


def _is_driver(pid: int) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in command_of(pid)
