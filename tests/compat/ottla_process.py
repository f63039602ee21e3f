"""A real `ottla start` in a temporary directory for clients and tools of others; our tools beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from secured_brokers import SecuredBrokers
from tests.server.processes import OttlaProcess, as_options

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
"""The same as in `apache_kafka.py`, so that both sides of a comparison wait alike."""


class EndedBadly(Exception):
    """The broker did not stop cleanly; the text has its last words."""


class TemporaryBroker(OttlaProcess):
    """A broker in a folder of its own that is removed in the end; `settings` are options in Kafka's names.

    With `secured` it listens with SASL_SSL. It does not see the environment's KAFKA_* variables, and must stop cleanly.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, secured: SecuredBrokers | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ottla-"))
        guarded = {} if secured is None else secured.options()
        super().__init__(self.folder / "data", *as_options({**SETTINGS, **guarded, **(settings or {})}))

    @property
    def bootstrap(self) -> str:
        return self.address

    def last_words(self) -> str:
        return self.log()[-6000:]

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in super()._environment().items() if not name.startswith("KAFKA_")}

    def __exit__(self, *exception: object) -> None:
        """End the broker by SIGTERM and remove its folder; EndedBadly if it ended before, or with an error."""
        assert self.process is not None
        try:
            self.process.terminate()
            self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.kill()
        words = self.last_words()
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.process.returncode != 0:
            raise EndedBadly(f"the broker ended with {self.process.returncode}:\n{words}")


def run_our_tool(name: str, arguments: Sequence[str], *, input_text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of our command-line tools against whatever its arguments name."""
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", name, *arguments],
        input=input_text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
