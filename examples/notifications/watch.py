"""Failed logins: an address that fails five times in five minutes becomes one alert.

ottla streams run examples/notifications/watch.py --application-id watch --dead-letter auth-log.dead
"""

from __future__ import annotations

import re
from typing import Any

from ottla.streams import JSON, TEXT, Record, StreamsBuilder, Topology

LOG, ALERTS = "auth-log", "alerts"
MOST, WITHIN_MS, QUIET_MS = 5, 5 * 60_000, 60 * 60_000
"""Failures that make an alert, the time in which they happen, and the time for which the address is not told again."""
FAILED = re.compile(
    r"sshd\[\d+\]: (?:message repeated (?P<times>\d+) times: \[ )?"
    r"Failed password for (?:invalid user )?(?P<user>.*?) from (?P<address>\S+) port"
)


def failure(line: str) -> dict[str, Any] | None:
    """A failed login, or None for another line of the log."""
    found = FAILED.search(line)
    return found and {"address": found["address"], "user": found["user"], "times": int(found["times"] or 1)}


class Watch:
    """Keeps the last failures of each address, and forgets addresses that have been silent."""

    def init(self, context: Any) -> None:
        self.context, self.watched = context, context.store("watched")
        context.schedule(QUIET_MS, self.forget)

    def process(self, record: Record) -> None:
        kept = self.watched.get(record.key)
        failures, told = (kept.value["failures"], kept.value["told"]) if kept else ([], None)
        now = max(record.timestamp, failures[-1][0] if failures else 0)
        new = [[record.timestamp, record.value["user"]]] * record.value["times"]
        failures = sorted(each for each in failures + new if each[0] > now - WITHIN_MS)[-10 * MOST :]
        if len(failures) >= MOST and (told is None or now - told >= QUIET_MS):
            told = now
            self.context.forward(record.with_value({
                "id": f"{record.key}@{now}",
                "address": record.key,
                "failures": len(failures),
                "within_s": (now - failures[0][0]) // 1000,
                "users": sorted({user for _, user in failures}),
            }))  # fmt: skip
        self.watched.put(record.key, {"failures": failures, "told": told}, now)

    def forget(self, now: int) -> None:
        for address, kept in list(self.watched.all()):
            if kept.timestamp < now - QUIET_MS - WITHIN_MS:
                self.watched.put(address, None, now)


def topology() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=JSON)
    builder.add_store("watched")
    lines = builder.stream(LOG, value=TEXT)
    failures = lines.map_values(failure, name="failures").filter(lambda _, found: found is not None)
    by_address = failures.select_key(lambda _, found: found["address"]).repartition(name="by-address")
    by_address.process(Watch, stores=["watched"], name="watch").to(ALERTS)
    return builder.build()
