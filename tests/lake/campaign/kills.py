"""Kills loaders, their workers and the broker, and lets the store fail. Loaders must continue afterwards."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.lake.campaign.places import Place
from tests.lake.campaign.processes import BrokerProcess, LoaderProcess, Stuck, kill, until

DRIVER, EVERYTHING, WORKER, BROKER, STORE = "driver", "everything", "worker", "broker", "store"
KINDS = (DRIVER, EVERYTHING, WORKER, BROKER, STORE)
LONGEST_AWAY_S = 4.0
PATIENCE_WITHOUT_ROUND_S = 300
ON_SPARK = ["--master", "local[2]"]
LAST_LOADS = 3


class Siege:
    """One lake's loader, started again each time that it ends."""

    def __init__(
        self,
        place: Place,
        broker: BrokerProcess,
        arguments: list[str],
        logs: Path,
        chance: random.Random,
        tell: Callable[[str], None],
    ) -> None:
        self.done: Counter[str] = Counter()
        self.ended: list[str] = []
        """Last words of loaders that ended without being killed."""
        self.differences: list[str] = []
        self._place, self._broker, self._chance, self._tell = place, broker, chance, tell
        self._arguments, self._logs = arguments, logs
        self._numbers = itertools.count(1)
        self._harmed = False
        """True if a fault since the loader's start may have ended it."""
        self._loader: LoaderProcess

    def begin(self) -> None:
        """Start the first loader."""
        self._loader = self._started()

    def strike(self, kind: str) -> None:
        """Make one fault at a random moment, and wait until the loader goes on."""
        self._any_moment()
        before = self._loader.rounds
        what = getattr(self, f"_strike_{kind}")()
        self.done[kind] += 1
        self._tell(f"{kind}: {what}")
        self._see_progress(0 if self._loader.status is not None else before)

    def end(self) -> None:
        """Let the loader stop after its round; without a fault since its start, it must exit with 0."""
        self._see_progress(0)
        if status := self._loader.stop():
            said = f"was asked to stop and ended with {status}: {self._loader.said()}"
            self.ended.append(said)
            if not self._harmed:
                self.differences.append(f"a loader that nothing was done to {said}")

    def abandon(self) -> None:
        """Leave no process behind."""
        if self._loader.status is None:
            self._loader.kill(everything=True)

    def last_load(self) -> None:
        """Run a plain load, which must load the rest and report complete counts; repeat it if it asks for that."""
        arguments = [each for each in self._arguments if each != "--continuous"]
        for number in range(1, LAST_LOADS + 1):
            loader = LoaderProcess(
                [*arguments, *ON_SPARK], self._place.environment(), self._logs / f"{self._name}-last-{number}.log"
            )
            status = loader.wait()
            if not loader.said().endswith("start again"):
                break
        if status or not loader.said().endswith(("adds up", "audit: nothing new")):
            self.differences.append(f"the last load ended with {status} and said: {loader.said()}")

    @property
    def _name(self) -> str:
        return f"{self._place.name}-{self._arguments[0]}"

    def _started(self) -> LoaderProcess:
        self._harmed = False
        log = self._logs / f"{self._name}-{next(self._numbers)}.log"
        engine = self._chance.choice((["--on", "local"], ON_SPARK))
        return LoaderProcess([*self._arguments, *engine], self._place.environment(), log)

    def _any_moment(self) -> None:
        """Wait for a random moment, mostly during rounds, sometimes during a loader's start."""
        if self._chance.random() < 0.8:
            self._see_progress(0)
            time.sleep(self._chance.uniform(0, 3))
        else:
            time.sleep(self._chance.uniform(0, 12))
            self._revive()

    def _see_progress(self, before: int) -> None:
        """Wait until the loader has made more rounds than `before`; one that ended is started again."""

        def went_on() -> bool:
            nonlocal before
            if self._revive():
                before = 0
            return self._loader.rounds > before

        try:
            until(went_on, f"a round of {self._name}", PATIENCE_WITHOUT_ROUND_S)
        except Stuck as stuck:
            raise Stuck(f"{stuck}; the loader's last words: {self._loader.said()}") from stuck

    def _revive(self) -> bool:
        """Start the loader again if it has ended; True if so."""
        if self._loader.status is None:
            return False
        if self._loader.status >= 0:
            said = f"ended with {self._loader.status}: {self._loader.said()}"
            self.ended.append(said)
            self._tell(f"the loader {said}")
            if not self._harmed:
                self.differences.append(f"a loader that nothing was done to {said}")
        self._loader = self._started()
        return True

    def _strike_driver(self) -> str:
        self._loader.kill(everything=False)
        return "kill -9"

    def _strike_everything(self) -> str:
        self._loader.kill(everything=True)
        return "kill -9 with all that it started"

    def _strike_worker(self) -> str:
        with contextlib.suppress(Stuck):
            until(lambda: self._loader.workers() or self._loader.status is not None, "a worker", 30)
        self._harmed = True
        workers = self._loader.workers()
        if not workers:
            return "there was none"
        kill(self._chance.choice(workers))
        return f"kill -9 of one of {len(workers)} Python processes"

    def _strike_broker(self) -> str:
        self._harmed = True
        self._broker.kill()
        away = self._chance.uniform(0, LONGEST_AWAY_S)
        time.sleep(away)
        self._broker.start()
        return f"kill -9, away for {away:.1f} s and the time of a start"

    def _strike_store(self) -> str:
        self._harmed = True
        return self._place.ail(self._chance)


def kinds(place: Place, chance: random.Random) -> Iterator[str]:
    """The kinds of faults for a place, in random order, each as often as the others."""
    possible = [kind for kind in KINDS if kind != STORE or place.stores_fail]
    while True:
        yield from chance.sample(possible, len(possible))
