"""Runs all kinds of faults, one after the other, on three brokers on separate hosts with ZooKeeper as their store."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from tests.faults.brokers import NUMBERS, Broker, Brokers, until
from tests.faults.campaign import BROKEN_OFF, Campaign, put_away
from tests.faults.hosts import Hosts
from tests.faults.nemesis import FAULTS, ZOOKEEPER, Field
from tests.faults.secured import Secured
from tests.faults.witness import Witness
from tests.storage.image_disk import ImageDisk
from zookeeper_ensemble import ZookeeperEnsemble

from ottla.sim.checkers.history import Anomaly

AFTERWARDS = 50
"""Records that must be acknowledged after each healing, before the next fault."""


class Beside(Protocol):
    """More work for the same brokers, with judges of its own."""

    def begin(self) -> None: ...

    def check(self) -> list[Anomaly]:
        """The anomalies since the last check; called after each healing."""

    def end(self) -> list[Anomaly]:
        """The last check; the work ends."""

    def summary(self) -> str: ...


class Mix:
    """Draws faults of the kinds that were chosen, each as often as the others, until the time is over."""

    def __init__(self, campaign: Campaign, field: Field, kinds: Sequence[str], beside: Sequence[Beside] = ()) -> None:
        self.campaign = campaign
        self.field = field
        self.kinds = kinds
        self.beside = beside
        self.found: list[Anomaly] = []
        """By those beside."""
        self.happened: Counter[str] = Counter()
        self.meanwhile: Counter[str] = Counter()
        """The number of records acknowledged during the faults of each kind."""
        self.longest_pause_s: dict[str, float] = {}

    def run(self, minutes: float, longest_s: float) -> list[Anomaly]:
        """Run for `minutes`, and until each kind has happened once; return the anomalies."""
        campaign = self.campaign
        campaign.begin()
        campaign.write()
        for each in self.beside:
            each.begin()
        end = time.monotonic() + minutes * 60
        for kind in self._drawn():
            if time.monotonic() >= end and len(self.happened) == len(self.kinds):
                break
            self._once(kind, longest_s)
        campaign.say("everything is healed; reading all")
        for each in self.beside:
            self.found += each.end()
            campaign.say(each.summary())
        return [*self.found, *campaign.finish()]

    def _drawn(self) -> Iterator[str]:
        while True:
            deck = list(self.kinds)
            self.campaign.random.shuffle(deck)
            yield from deck

    def _once(self, kind: str, longest_s: float) -> None:
        fault, witness, brokers = FAULTS[kind], self.campaign.witness, self.campaign.brokers
        lasts_s = min(fault.draw_s(self.campaign.random), longest_s)
        before = witness.acknowledged
        witness.count_pauses()
        with fault.begin(self.field) as what:
            self.campaign.disturbed(f"{kind}: {what}")
            time.sleep(lasts_s)
            meanwhile = witness.acknowledged - before
        self.campaign.disturbed(f"healed: {kind}")
        healed = time.monotonic()
        until(brokers.are_whole, f"after {kind} ({what}) all replicas are in sync again")
        whole_s = time.monotonic() - healed
        enough = witness.acknowledged + AFTERWARDS
        until(lambda: witness.acknowledged >= enough, f"after {kind} ({what}) records are acknowledged")
        self.campaign.reader.again()
        for each in self.beside:
            self._tell(each.check())
        self.happened[kind] += 1
        self.meanwhile[kind] += meanwhile
        self.longest_pause_s[kind] = max(self.longest_pause_s.get(kind, 0), witness.longest_pause_s)
        self.campaign.say(
            f"{kind} ({what}) for {lasts_s:.1f} s: {meanwhile:,} acknowledged meanwhile, longest pause "
            f"{witness.longest_pause_s:.1f} s, whole {whole_s:.1f} s after healing ({witness.acknowledged:,} in all)"
        )

    def _tell(self, found: list[Anomaly]) -> None:
        self.found += found
        for anomaly in found:
            self.campaign.say(f"ANOMALY {anomaly.kind}: {anomaly.what}")

    def summary(self) -> list[str]:
        """One line for each kind of fault."""
        return [
            f"  {kind:18} {self.happened[kind]:4} times, {self.meanwhile[kind]:7,} records acknowledged meanwhile, "
            f"longest pause {self.longest_pause_s.get(kind, 0):5.1f} s"
            for kind in self.kinds
        ]


def run_mix(
    folder: Path,
    seed: int,
    minutes: float,
    kinds: Sequence[str],
    libs: Path,
    longest_s: float = 60,
    rate: float = 250,
    beside: Callable[[Brokers], Beside] | None = None,
    *,
    tls: bool = False,
) -> tuple[Witness, list[Anomaly]]:
    """Run the mix; return the witness, whose file is `folder`/history.jsonl, and the anomalies."""
    witness = Witness(folder / "history.jsonl")
    with contextlib.ExitStack() as held:
        held.callback(witness.close)
        hosts = held.enter_context(Hosts([*(f"broker{number}" for number in NUMBERS), ZOOKEEPER]))
        servers = folder / "zookeeper"
        servers.mkdir()
        place = {"address": hosts.address[ZOOKEEPER], "prefix": hosts.prefix(ZOOKEEPER)}
        ensemble = ZookeeperEnsemble(libs, servers, **place)  # type: ignore[arg-type]
        held.callback(ensemble.stop)
        join = ("--join", f"zookeeper://{ensemble.hosts}/faults", "--set", "zookeeper.digest=ottla:secret")
        brokers, secured = [], Secured(folder) if tls else None
        for number in NUMBERS:
            disk = held.enter_context(ImageDisk(folder / f"{number}.img", folder / f"disk-{number}", 1024))
            host = f"broker{number}"
            address = f"{hosts.address[host]}:9092"
            brokers.append(Broker(number, disk, folder, address, join, hosts.prefix(host), secured))
        held.callback(put_away, brokers)
        campaign = Campaign(Brokers(brokers, secured), witness, seed, per_second=rate, ahead=500)
        field = Field(campaign.brokers, hosts, ensemble, campaign.random)
        mix = Mix(campaign, field, kinds, [] if beside is None else [beside(campaign.brokers)])
        try:
            found = mix.run(minutes, longest_s)
        except BROKEN_OFF as why:
            found = [*mix.found, *campaign.stuck(why)]
        print(f"{sum(mix.happened.values())} faults:", *mix.summary(), sep="\n")
    return witness, found
