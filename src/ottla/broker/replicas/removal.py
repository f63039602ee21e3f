"""Deletes the `*-delete` directories of dropped logs one by one, with turns of the loop between them.

Called by reconcile.py, moves.py and log_upkeep.py after they have renamed a directory so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.log_directories import LogDirectories

log = logging.getLogger("ottla.replicas")
_EVERY_MS = 50
_AGAIN_MS = 10_000


class Removal:
    """Removes such directories in all log directories of this broker."""

    def __init__(self, around: Environment, directories: LogDirectories) -> None:
        self._around = around
        self._directories = directories
        self._waiting = False
        self._closed = False

    def later(self) -> None:
        """Begin to delete: there is a new directory."""
        self._after(_EVERY_MS)

    def close(self) -> None:
        """Stop; the next start goes on."""
        self._closed = True

    def _after(self, delay_ms: int) -> None:
        if not self._waiting:
            self._waiting = True
            self._around.deadlines.after(delay_ms, self._remove_one)

    def _remove_one(self) -> None:
        self._waiting = False
        if self._closed:
            return
        more = stuck = False
        for directory in self._directories.online:
            try:
                more |= directory.deletions.remove_one()
            except OSError as error:
                stuck = True
                log.warning("could not delete a dropped partition's files, trying again: %s", error)
        if more or stuck:
            self._after(_EVERY_MS if more else _AGAIN_MS)
