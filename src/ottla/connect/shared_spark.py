"""One Spark session of a worker's process, for all tasks that run on it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from ottla.connect.errors import ConfigException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.submit import Opened


class _Held:
    """The session, its settings, and the tasks that use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.opened: Opened | None = None
        self.settings: tuple[str | None, tuple[str, ...]] = (None, ())
        self.users: set[int] = set()


_HELD = _Held()
IN_TURN: Final = threading.Lock()
"""Held while a job runs on the session: one at a time has all of it."""


class SharedSpark:
    """One task's hold on the session. It starts with the first task that needs it, and ends with the last one."""

    def __init__(self, master: str | None, conf: tuple[str, ...]) -> None:
        self._settings = (master, conf)

    def session(self) -> SparkSession:
        """The session; it starts where there is none, or where its Java process has ended."""
        from ottla.spark.submit import SparkSettings, open_session

        with _HELD.lock:
            if _HELD.opened is not None and not _HELD.opened.answers:
                _HELD.opened.forget()
                _HELD.opened = None
            if _HELD.opened is None:
                _HELD.opened = open_session(SparkSettings(*self._settings), application="ottla connect", quiet=True)
                _HELD.settings = self._settings
            elif _HELD.settings != self._settings:
                raise ConfigException(
                    "the connectors of a worker share one Spark session: give them the same spark.master and spark.conf"
                )
            _HELD.users.add(id(self))
            return _HELD.opened.spark

    def release(self) -> None:
        """Give up the session."""
        with _HELD.lock:
            _HELD.users.discard(id(self))
            if not _HELD.users and _HELD.opened is not None:
                if _HELD.opened.answers:
                    _HELD.opened.close()
                else:
                    _HELD.opened.forget()
                _HELD.opened = None
