"""Logs once when the metadata store becomes unusable, and once when it is usable again."""

from __future__ import annotations

import logging

log = logging.getLogger("ottla.metadata")


class StoreTrouble:
    """One kind of use of the store, which works or fails."""

    def __init__(self, use: str) -> None:
        """`use`: "written" or "read", for the sentence."""
        self._use = use
        self.error: OSError | None = None
        """The error of the last attempt, if it failed."""

    def failed(self, error: OSError) -> None:
        if self.error is None:
            log.error("the metadata store cannot be %s: %s; this is tried again", self._use, error)
        self.error = error

    def worked(self) -> None:
        if self.error is not None:
            log.warning("the metadata store can be %s again; before it was: %s", self._use, self.error)
            self.error = None
