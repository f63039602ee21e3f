"""Says in the log, once each time, that the metadata store cannot be used, and that it can be again."""

from __future__ import annotations

import logging

log = logging.getLogger("ottla.metadata")


class StoreTrouble:
    """One kind of use, which works or fails."""

    def __init__(self, use: str) -> None:
        """`use`: "written" or "read", for the sentence."""
        self._use = use
        self.error: OSError | None = None
        """Why it failed when it was last tried."""

    def failed(self, error: OSError) -> None:
        if self.error is None:
            log.error("the metadata store cannot be %s: %s; this is tried again", self._use, error)
        self.error = error

    def worked(self) -> None:
        if self.error is not None:
            log.warning("the metadata store can be %s again; before it was: %s", self._use, self.error)
            self.error = None
