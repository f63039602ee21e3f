"""`ottla clock`: what time it is by each broker, and an administrator's word that a clock is right."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import datetime

from ottla.cli.command import Command, connected, noun, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.client.admin.clocks import BrokerClock, accept_time, broker_clocks
from ottla.client.blocking.admin import Admin
from ottla.kernel.times import duration_text, utc_text
from ottla.kernel.trusted_time import SMALL_MS

_PATIENCE_S = 10.0
_STEP_S = 0.1


def command(arguments: Sequence[str]) -> int:
    return noun("clock", VERBS, arguments)


def _clocks(admin: Admin) -> list[BrokerClock]:
    admin.cluster.topics()  # learns the brokers
    plan = admin.cluster.plan
    found = admin.cluster.run(broker_clocks(plan, list(plan.metadata.brokers)))
    if not found:
        raise Misuse("no broker there tells the time: these brokers are not ottla's, or are of an older release")
    return found


def _describe(given: Given) -> int:
    with connected(given) as admin:
        found = _clocks(admin)
    _print(given, found)
    return 1 if any(each.in_doubt for each in found) else 0


def _accept(given: Given) -> int:
    now_ms = int(time.time() * 1000)
    wanted = given.text("time")
    time_ms = now_ms if wanted is None else _parsed(wanted)
    with connected(given) as admin:
        before = _clocks(admin)
        if wanted is None:
            _refuse_other_clocks(before, now_ms)
        admin.cluster.run(accept_time(admin.cluster.plan, time_ms))
        after = _until_taken(admin, time_ms)
    _print(given, after)
    left = [each for each in after if each.in_doubt]
    for each in left:
        sys.stderr.write(
            f"ottla: broker {each.broker} stays in doubt: {doubt_of(each)}; set the clock of its machine\n"
        )
    return 1 if left else 0


def _refuse_other_clocks(found: Sequence[BrokerClock], now_ms: int) -> None:
    for each in found:
        if each.in_doubt and abs(each.wall_ms - now_ms) >= SMALL_MS:
            here, there = utc_text(now_ms), utc_text(each.wall_ms)
            raise Misuse(
                f"the clock of this machine says {here}, that of broker {each.broker} {there}: set the wrong one, "
                "or say what time it is by --time, for example --time 2026-11-28T12:00:00Z"
            )


def _until_taken(admin: Admin, time_ms: int) -> list[BrokerClock]:
    """The clocks once every broker that agrees has taken the word, or after some seconds."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        found = _clocks(admin)
        waits = any(each.in_doubt and abs(each.wall_ms - time_ms) < SMALL_MS // 2 for each in found)
        if not waits or time.monotonic() > until:
            return found
        time.sleep(_STEP_S)


def _parsed(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Misuse(f"--time {text} is not a time with its zone, as 2026-11-28T12:00:00Z or 2026-11-28T13:00:00+01:00")
    return int(found.timestamp() * 1000)


def _print(given: Given, found: Sequence[BrokerClock]) -> None:
    if wants_json(given):
        print_json([each._asdict() for each in found])
    else:
        rows = [
            [each.broker, utc_text(each.wall_ms), utc_text(each.proven_ms), doubt_of(each) or "-"] for each in found
        ]
        print_table(["BROKER", "CLOCK", "PROVEN", "DOUBT"], rows)


def doubt_of(clock: BrokerClock) -> str:
    """The doubt in words; empty where there is none."""
    if not clock.settled:
        return "the other brokers have not told this new one the time"
    if clock.ahead_ms:
        return f"the clock is {duration_text(clock.ahead_ms)} later than is proven"
    if clock.behind_ms:
        return f"the clock is {duration_text(clock.behind_ms)} earlier than it was known to be"
    return ""


VERBS = {
    "describe": Command(
        "ottla clock describe",
        "Show what time it is by the clock of each broker, and by what other witnesses have proven.",
        _describe,
    ),
    "accept": Command(
        "ottla clock accept [--time TIME]",
        "Say what time it is: brokers whose clocks agree go by their clocks again, and delete what is too old by them.",
        _accept,
        [Option("time", "The time, with its zone; default: that of this machine's clock.", "TIME", "Time")],
    ),
}
