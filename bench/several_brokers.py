"""Measures `ottla start --brokers N` beside one broker: `python -m bench.several_brokers [--brokers 4] [--clients 4]`.

The same clients produce 200-byte records to a topic that is spread over all brokers, by turns. The processor time for
each record is the figure that holds on any machine: where it does not grow with the number of brokers, N brokers take N
times as many records as one, given a core each. The ratio of the rates is meaningful where clients have cores of their
own: on a machine with 2 * N cores or more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.ports import first_of_free

from bench.brokers import READY_WITHIN_S, ROOT, OttlaBroker
from bench.rig import Rig, driven, driver, touch_free_memory
from ottla.lake.reports.counts import aligned

SHAPES = ((50, 1_000_000), (1, 60_000))
"""Records in a batch, and records that all clients send together."""
WANTED = 0.8


class SeveralBrokers(OttlaBroker):
    """`ottla start --brokers N`, for one too: so both sides have a supervisor."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder)
        self.count = count
        self.port = first_of_free(count)

    def command(self) -> list[str]:
        return [*super().command(), "--brokers", str(self.count)]

    def start(self) -> float:
        seconds = super().start()
        end = time.monotonic() + READY_WITHIN_S
        while not (self.folder / "data" / "cluster.json").exists():
            if time.monotonic() > end:
                raise RuntimeError(f"not all of {self.count} brokers serve; see {self.folder / 'data'}")
            time.sleep(0.01)
        return seconds


@dataclass(frozen=True, slots=True)
class Run:
    """One run of all clients."""

    rate: float
    """Records a second of all clients together, by the time from the first start to the last end."""
    broker_cpu_us: float
    """Processor time of all brokers for each record, in microseconds."""
    busy: float
    """Cores that the brokers kept busy."""


def main() -> int:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="several-", dir=options.folder))
    rig = Rig(folder)
    driver()
    try:
        for count in (1, options.brokers):
            rig.brokers[str(count)] = SeveralBrokers(folder / str(count), count)
            rig.brokers[str(count)].start()
        rows = [("brokers", "a batch", "records/s", "CPU us/record", "cores busy", "rate", "CPU")]
        for batch, records in SHAPES:
            rows += _compared(rig, options, batch, records // (10 if options.quick else 1))
    finally:
        rig.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(aligned(rows)))
    cores = os.cpu_count() or 1
    print(
        f"rate, CPU: beside one broker. Wanted of the rate: {WANTED * options.brokers:.1f}, where clients are not the "
        f"limit. This machine has {cores} cores for {options.brokers} brokers and {options.clients} clients"
        + (": the ratio of the rates says little here." if cores < 2 * options.brokers else ".")
    )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.several_brokers", description=__doc__)
    parser.add_argument("--brokers", type=int, default=2, help="brokers beside one")
    parser.add_argument("--clients", type=int, default=2, help="client processes, on both sides")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side")
    parser.add_argument("--folder", type=Path, help="where brokers keep data; default: .cache/bench")
    options = parser.parse_args()
    if options.brokers < 2 or options.clients < 1 or options.rounds < 1:
        parser.error("--brokers takes 2 or more, --clients and --rounds 1 or more")
    if options.folder is None:
        options.folder = ROOT / ".cache" / "bench"
        options.folder.mkdir(parents=True, exist_ok=True)
    return options


def _compared(rig: Rig, options: argparse.Namespace, batch: int, records: int) -> list[tuple[str, ...]]:
    """Rows of one shape: one broker, then several, as medians of runs by turns."""
    names = ("1", str(options.brokers))
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(options.rounds + 1):
        for name in names:
            run = _run(rig, name, options, batch, records)
            if number:  # the first warms up
                runs[name].append(run)
    one, several = (_median(runs[name]) for name in names)
    return [_row(names[0], batch, one, one), _row(names[1], batch, several, one)]


def _run(rig: Rig, name: str, options: argparse.Namespace, batch: int, records: int) -> Run:
    broker = rig.brokers[name]
    each = records // options.clients
    partitions = 2 * options.brokers
    with rig.topic(name, partitions) as topic, ThreadPoolExecutor(options.clients) as clients:
        os.sync()
        touch_free_memory()
        cpu, began = broker.cpu_seconds(), time.monotonic()
        words = {"brokers": broker.address, "topic": topic, "partitions": partitions, "acks": "all", "batch": batch}
        sent = [clients.submit(driven, "produce", records=each, **words) for _ in range(options.clients)]
        for client in sent:
            client.result()
        wall, used = time.monotonic() - began, broker.cpu_seconds() - cpu
    total = each * options.clients
    return Run(total / wall, used / total * 1e6, used / wall)


def _median(runs: list[Run]) -> Run:
    return Run(*(median(getattr(run, name) for run in runs) for name in Run.__slots__))


def _row(brokers: str, batch: int, run: Run, one: Run) -> tuple[str, ...]:
    rates = (f"{run.rate:,.0f}", f"{run.broker_cpu_us:.2f}", f"{run.busy:.2f}")
    return (brokers, str(batch), *rates, f"{run.rate / one.rate:.2f}", f"{run.broker_cpu_us / one.broker_cpu_us:.2f}")


if __name__ == "__main__":
    sys.exit(main())
