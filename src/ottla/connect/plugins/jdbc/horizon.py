"""The bound below which no row can appear any more, so that a poll never passes a row that commits late.

A transaction takes its ids and its time before it commits. A poll that reads up to the highest id passes rows of
transactions in progress, and they are lost (kafka-connect-jdbc#172). On PostgreSQL a poll notes the bound first and the
transactions in progress then; once those have ended, no row below the bound is missing. Other databases do not tell.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, text

_IN_PROGRESS: Final = text("""
    SELECT l.virtualtransaction, l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid()
      AND a.datname = current_database() AND coalesce(a.backend_type, 'client backend') = 'client backend'
    UNION ALL SELECT 'prepared ' || gid, 0 FROM pg_prepared_xacts WHERE database = current_database()""")
_SAY_AFTER_SECONDS: Final = 60
log = logging.getLogger("ottla.connect")


@dataclass(slots=True)
class _Noted:
    bound: Any
    open: set[str]
    since: float
    is_logged: bool = False


class Horizon:
    """The bound of one table on PostgreSQL."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._noted: _Noted | None = None
        self._asked = False

    @property
    def waits(self) -> bool:
        """True while rows below the bound that was noted may be missing."""
        return self._noted is not None

    def passed(self, connection: Connection, bound: Any) -> Any:
        """The bound below which all rows are there, or None while transactions from before it are in progress.

        `bound` was read before, in a statement of its own.
        """
        if not self._asked:
            self._asked = True
            if connection.execute(text("SELECT pg_is_in_recovery()")).scalar():
                log.warning(
                    "%s is read from a replica, which does not know the transactions in progress: rows that commit "
                    "late are lost; read from the primary, or set timestamp.delay.interval.ms", self._name,
                )  # fmt: skip
        rows = connection.execute(_IN_PROGRESS).all()
        now_open = {str(row[0]) for row in rows}
        if self._noted is None:
            self._noted = _Noted(bound, now_open, time.monotonic())
        noted = self._noted
        noted.open &= now_open
        if not noted.open:
            self._noted = None
            return noted.bound
        if not noted.is_logged and time.monotonic() - noted.since > _SAY_AFTER_SECONDS:
            noted.is_logged = True
            pids = ", ".join(sorted(str(row[1]) for row in rows if str(row[0]) in noted.open))
            log.warning("%s: rows wait for transactions that began before them; processes of PostgreSQL: %s",
                        self._name, pids)  # fmt: skip
        return None
