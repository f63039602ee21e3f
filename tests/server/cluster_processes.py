"""Several real `ottla start` processes in one cluster, for tests that kill some of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from processes import OttlaProcess


class OttlaCluster:
    """Brokers 1 to `brokers`, each with a directory of its own, one store for all."""

    def __init__(self, directory: Path, brokers: int = 3, *options: str) -> None:
        self.store = directory / "store"
        self.brokers = {
            number: OttlaProcess(
                directory / f"broker-{number}", "--id", str(number), "--join", f"sqlite:{self.store}", *options
            )
            for number in range(1, brokers + 1)
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def log(self) -> str:
        return "\n".join(f"--- {number}\n{broker.log()}" for number, broker in self.brokers.items())

    def __enter__(self) -> OttlaCluster:
        for broker in self.brokers.values():
            broker.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for broker in self.brokers.values():
            if broker.process is not None and broker.process.poll() is None:
                broker.kill()
            broker.errors.close()


def until(holds: Callable[[], object], within_s: float = 300) -> None:
    """Wait for a condition of another process."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.02)
