"""Records what clients of real brokers did and saw: a history for the simulator's checkers, written to a file."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from tests.faults.sent_anew import Place, SenderOf, older_copies, told_apart

from ottla.sim.checkers.history import Anomaly, Event, Failed, History, LogKey, Scanned, Sent, Traits
from ottla.sim.checkers.verdict import check

_KINDS = {kind.__name__: kind for kind in get_args(Event)}


class Witness:
    """Takes events from threads, and writes each as a line of JSON to `path`, in their order."""

    def __init__(self, path: Path) -> None:
        self.history = History()
        self.history.replicated = True
        self.acknowledged = 0
        self.older_copies: dict[Place, bytes] = {}
        """Records that are there twice because librdkafka sent them anew (sent_anew.py), by the last judgement."""
        self.longest_pause_s = 0.0
        """The longest time without an acknowledgement since `count_pauses`."""
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
        """Count a record that was acknowledged just now."""
        with self._lock:
            now_s = time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now_s - self._last_s)
            self._last_s = now_s
            self.acknowledged += 1

    def told(self) -> int:
        """The number of events so far."""
        with self._lock:
            return len(self.history.events)

    def judged(self, until: int, scans: Iterable[Scanned], sender_of: SenderOf) -> list[Anomaly]:
        """Check the events before `until`, followed by scans that began then.

        Records acknowledged during the scans may lie after their end, so those events are left out; records sent
        meanwhile may lie before it, so those stay.
        """
        with self._lock:
            events = self.history.events[:until]
            events += [event for event in self.history.events[until:] if isinstance(event, Sent | Failed)]
        so_far = History()
        so_far.traits, so_far.replicated = self.history.traits, True
        so_far.events = [*events, *scans]
        self.older_copies = older_copies(scans, sender_of)
        return check(told_apart(so_far, self.older_copies))

    def keep(self, scans: Iterable[Scanned]) -> None:
        """Write the scans of the last judgement, and the copies that it told apart."""
        for event in scans:
            self.saw(event)
        for place, name in self.older_copies.items():
            told = {"older_copy": place.log, "offset": place.offset, "name": name.decode()}
            self._file.write(json.dumps(told) + "\n")

    def close(self) -> None:
        self._file.close()


def as_line(event: Event) -> str:
    return json.dumps({"event": type(event).__name__, **event._asdict()}, default=bytes.decode) + "\n"


def from_file(path: Path) -> History:
    """Read the history that a Witness wrote, as its last judgement saw it."""
    history, older = History(), {}
    history.replicated = True
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            if (log := fields.pop("promised", None)) is not None:
                history.traits[LogKey(*log)] = Traits(**fields)
                continue
            if (log := fields.pop("older_copy", None)) is not None:
                older[Place(LogKey(*log), fields["offset"])] = fields["name"].encode()
                continue
            kind = _KINDS[fields.pop("event")]
            if "log" in fields:
                fields["log"] = LogKey(*fields["log"])
            if "values" in fields:
                fields["values"] = tuple(value.encode() for value in fields["values"])
            if "records" in fields:
                fields["records"] = tuple((offset, value.encode()) for offset, value in fields["records"])
            history.add(kind(**fields))
    return told_apart(history, older)
