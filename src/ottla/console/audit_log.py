"""The audit log of a broker: whether its lines are those that the broker wrote, and the newest of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ottla.access.audit import read_end
from ottla.cli.audit_log import read_log
from ottla.console.desk import Desk
from ottla.console.view import PageQuery, View
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.quantities import moment_text
from ottla.web.exchange import HttpError

PARAMETERS = ("q", "count")
_MOST_FAULTS = 20
_COLUMNS = ("number", "event", "principal", "client", "api")


async def audit(desk: Desk, query: PageQuery) -> View:
    """The newest events, of those whose line contains a text; the chain is followed from the first line to the last."""
    paths, q, count = desk.setting.audit_log, query.text("q"), query.count("count", 100, least=1, most=1_000)
    values: dict[str, Any] = {"files": list(paths), "q": q, "count": count}
    if not paths:
        return View("audit.html", "Audit log", values)
    await _may_see(desk)
    try:
        found = await asyncio.to_thread(read_log, paths, q, count)
    except (OSError, UnicodeDecodeError) as fault:
        raise HttpError(502, f"the audit log cannot be read: {fault}") from None
    values |= {
        "lines": found.end.lines,
        "chain": found.end.chain,
        "faults": found.faults[:_MOST_FAULTS],
        "more_faults": max(0, len(found.faults) - _MOST_FAULTS),
        "torn": found.torn,
        "events": [shown for line in reversed(found.newest) if (shown := _shown(line))],
    }
    return View("audit.html", "Audit log", values)


async def _may_see(desk: Desk) -> None:
    """Users who log in need the right to see the ACLs of the cluster; ApiError where they have it not."""
    if not desk.user:
        return
    try:
        await desk.admin.describe_acls()
    except ApiError as fault:
        if fault.code is not ErrorCode.SECURITY_DISABLED:
            raise


def _shown(line: str) -> dict[str, Any] | None:
    """An event as the page shows it; None for a line that is none, which is among the faults."""
    if read_end(line) is None:
        return None
    event = json.loads(line)
    time_s = event.get("time")
    known = isinstance(time_s, int | float)
    return {
        **{name: event.get(name, "") for name in _COLUMNS},
        "time": moment_text(int(time_s * 1000)) if known else "?",
        "more": {name: value for name, value in event.items() if name not in (*_COLUMNS, "time", "chain")},
    }
