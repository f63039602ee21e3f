"""Cuts the power of a whole cluster: under load, during a start, while leaders change; reads everything after each."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.faults.brokers import NUMBERS, Broker, Brokers, Stuck, cut_power, until
from tests.faults.campaign import BROKEN_OFF, Campaign, put_away
from tests.faults.secured import Secured
from tests.faults.witness import Witness
from tests.ports import free_ports
from tests.storage.image_disk import ImageDisk

from ottla.sim.checkers.history import Anomaly

RECORDS_A_ROUND = 2000
"""The least number of records acknowledged between two cuts."""


class PowerCuts:
    """Three brokers on one machine, each on a file system of its own, and the store of the cluster on a fourth."""

    def __init__(self, campaign: Campaign, store: ImageDisk) -> None:
        self.campaign = campaign
        self.brokers = campaign.brokers
        self.random = campaign.random
        self._store = store
        self.moments: Counter[str] = Counter()
        self.cuts = 0

    def run(self, rounds: int, config: Mapping[str, str]) -> list[Anomaly]:
        """Run the rounds until one has anomalies; return these."""
        campaign, witness = self.campaign, self.campaign.witness
        campaign.begin(config)
        moments = self._moments(rounds)
        for number in range(1, rounds + 1):
            before, cuts_before, began = witness.acknowledged, self.cuts, time.monotonic()
            campaign.write()
            enough = before + RECORDS_A_ROUND
            until(lambda enough=enough: witness.acknowledged >= enough, "records are acknowledged")
            time.sleep(self.random.uniform(0, 0.5))
            moment = moments[number - 1]
            moment(self)
            cut_s = time.monotonic()
            self.brokers.start()
            ready_s = time.monotonic() - cut_s
            campaign.settle()
            whole_s = time.monotonic() - cut_s
            campaign.reader.again()
            if found := campaign.judge():
                return found
            self.moments[moment.__name__.strip("_").replace("_", " ")] += 1
            campaign.say(
                f"round {number}/{rounds}, cut {moment.__name__.strip('_').replace('_', ' ')}"
                f"{f' ({self.cuts - cuts_before} cuts)' if self.cuts - cuts_before > 1 else ''}: "
                f"{witness.acknowledged - before:,} acknowledged, ready after {ready_s:.1f} s, whole after "
                f"{whole_s:.1f} s, all {witness.acknowledged:,} there ({time.monotonic() - began:.1f} s)"
            )
        return campaign.finish()

    def _moments(self, rounds: int) -> list[Callable[[PowerCuts], None]]:
        """The kinds of moments for the cuts, each as often as the others, in random order."""
        kinds = [PowerCuts._under_load, PowerCuts._while_starting, PowerCuts._while_leaders_change]
        drawn = [kinds[number % len(kinds)] for number in range(rounds)]
        self.random.shuffle(drawn)
        return drawn

    def _cut(self) -> None:
        for broker in self.brokers.of.values():
            if broker.fell():
                raise Stuck(f"broker {broker.number} ended by itself: {broker.log()[-2000:]}")
        disks = [broker.disk for broker in self.brokers.of.values()]
        cut_power(self.brokers.of.values(), [*disks, self._store])
        self.cuts += 1
        self.campaign.disturbed(f"power cut {self.cuts} of all")

    def _under_load(self) -> None:
        self._cut()

    def _while_starting(self) -> None:
        """Cut the power, then once or twice more during the start."""
        self._cut()
        for _ in range(self.random.randint(1, 2)):
            for broker in self.brokers.of.values():
                broker.spawn()
            time.sleep(self.random.uniform(0.2, 4))
            self._cut()

    def _while_leaders_change(self) -> None:
        """Kill a leader, and cut the power shortly afterwards."""
        leader = self.brokers.some_leader(self.random.randrange(3)) or self.random.choice(NUMBERS)
        self.brokers.of[leader].kill()
        self.campaign.disturbed(f"killed {leader}")
        time.sleep(self.random.uniform(0, 1))
        if self.random.random() < 0.5:  # it is starting again already
            self.brokers.of[leader].spawn()
            time.sleep(self.random.uniform(0, 1.5))
        self._cut()


def run_power_cuts(
    folder: Path, seed: int, rounds: int, config: Mapping[str, str] | None = None, *, tls: bool = False
) -> tuple[Witness, list[Anomaly]]:
    """Run the rounds; return the witness, whose file is `folder`/history.jsonl, and the anomalies."""
    witness = Witness(folder / "history.jsonl")
    with contextlib.ExitStack() as held:
        held.callback(witness.close)
        store = held.enter_context(ImageDisk(folder / "store.img", folder / "store", 256))
        join = ("--join", f"sqlite:{store.mount / 'store'}")
        brokers, secured = [], Secured(folder) if tls else None
        for number, port in zip(NUMBERS, free_ports(len(NUMBERS)), strict=True):
            disk = held.enter_context(ImageDisk(folder / f"{number}.img", folder / f"disk-{number}", 512))
            brokers.append(Broker(number, disk, folder, f"127.0.0.1:{port}", join, secured=secured))
        held.callback(put_away, brokers)
        campaign = Campaign(Brokers(brokers, secured), witness, seed, per_second=4000, ahead=1000)
        cuts = PowerCuts(campaign, store)
        try:
            found = cuts.run(rounds, config or {})
        except BROKEN_OFF as why:
            found = campaign.stuck(why)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(cuts.moments.items()))
        print(f"{cuts.cuts} power cuts of the whole cluster in {sum(cuts.moments.values())} rounds ({kinds})")
        if not found and witness.acknowledged < rounds * RECORDS_A_ROUND:
            found = [Anomaly("floor", f"{witness.acknowledged} acknowledged records are too few")]
    return witness, found
