"""Several real `ottla start` processes in one cluster, for tests that kill some of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

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

    @property
    def running(self) -> bool:
        """False once one of the brokers has ended."""
        return all(broker.running for broker in self.brokers.values())

    def address(self, number: int) -> str:
        return self.brokers[number].address

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            broker.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for broker in self.brokers.values():
            if broker.running:
                broker.kill()
            broker.close()

    def kill(self, number: int) -> None:
        self.brokers[number].kill()

    def stop(self, number: int) -> None:
        """Stop a broker by SIGTERM; it must end cleanly."""
        assert self.brokers[number].stop() == 0, self.brokers[number].log()

    def start(self, number: int) -> None:
        self.brokers[number].start()


def until(holds: Callable[[], object], within_s: float = 300) -> None:
    """Wait for a condition of another process."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.02)
