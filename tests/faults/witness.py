"""What the clients of real brokers did and saw: a history for the simulator's checkers, kept in a file as it grows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from ottla.sim.checkers.history import Anomaly, Event, History, LogKey, Scanned, Traits
from ottla.sim.checkers.verdict import check

_KINDS = {kind.__name__: kind for kind in get_args(Event)}


class Witness:
    """Threads tell it events; each is one line of JSON in `path`, in the order in which they were told."""

    def __init__(self, path: Path) -> None:
        self.history = History()
        self.history.replicated = True
        self.acknowledged = 0
        self.longest_pause_s = 0.0
        """Without an acknowledgement, since `count_pauses`."""
        self._last_s = time.monotonic()
        self._lock = threading.Lock()
        self._file = path.open("w", encoding="utf-8")

    def promise(self, log: LogKey, traits: Traits) -> None:
        self.history.traits[log] = traits
        self._file.write(json.dumps({"promised": log, **traits._asdict()}) + "\n")

    @staticmethod
    def now_us() -> int:
        return time.monotonic_ns() // 1000

    def saw(self, event: Event) -> None:
        line = as_line(event)
        with self._lock:
            self.history.add(event)
            self._file.write(line)

    def count_pauses(self) -> None:
        with self._lock:
            self.longest_pause_s, self._last_s = 0.0, time.monotonic()

    def counts_one(self) -> None:
        """One more was acknowledged just now."""
        with self._lock:
            now_s = time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now_s - self._last_s)
            self._last_s = now_s
            self.acknowledged += 1

    def judged(self, scans: Iterable[Scanned]) -> list[Anomaly]:
        """All that was seen until now, and these scans as the last."""
        with self._lock:
            events = list(self.history.events)
        so_far = History()
        so_far.traits, so_far.replicated = self.history.traits, True
        so_far.events = [*events, *scans]
        return check(so_far)

    def close(self) -> None:
        self._file.close()


def as_line(event: Event) -> str:
    return json.dumps({"event": type(event).__name__, **event._asdict()}, default=bytes.decode) + "\n"


def from_file(path: Path) -> History:
    """The history that a Witness wrote."""
    history = History()
    history.replicated = True
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            if (log := fields.pop("promised", None)) is not None:
                history.traits[LogKey(*log)] = Traits(**fields)
                continue
            kind = _KINDS[fields.pop("event")]
            if "log" in fields:
                fields["log"] = LogKey(*fields["log"])
            if "values" in fields:
                fields["values"] = tuple(value.encode() for value in fields["values"])
            if "records" in fields:
                fields["records"] = tuple((offset, value.encode()) for offset, value in fields["records"])
            history.add(kind(**fields))
    return history
