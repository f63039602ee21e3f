"""Tells the coordination store how old the log directories are, and notices a machine that was put back in time.

Once a second the age of each directory that was written to grows by one, on its disk first, in the store second
(storage/directory/age.py). A start compares the two (incarnations.py). While the broker runs, the store may know a
greater age than this process: then the whole machine was put back to a snapshot, memory included. It has forgotten
records that it acknowledged, so it stops, and comes back as an older copy (rule H2).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ottla.kernel.story import Slot

if TYPE_CHECKING:
    from ottla.broker.control.incarnations import IncarnationDirectories
    from ottla.broker.environment import Environment
    from ottla.kernel.seams import Coordination
    from ottla.storage.directory.directory import LogDirectory

log = logging.getLogger("ottla.ages")
EVERY_MS = 1000


class Ages:
    """The ages of one broker's log directories."""

    def __init__(self, around: Environment, coordination: Coordination, directories: IncarnationDirectories) -> None:
        self._around = around
        self._coordination = coordination
        self._directories = directories
        self._written: dict[str, int] = {}
        """By path, the sum of the offsets in a directory when its age grew last."""

    async def stored(self) -> dict[str, int]:
        """The ages that the store knows, by the ids of the directories that this broker had last."""
        me = self._around.metadata.brokers.get(self._around.broker)
        known = [] if me is None or self._is_alone() else [held.directory_id for held in me.held]
        return {directory_id: await self._known(directory_id) for directory_id in known}

    async def opened(self, stored: Mapping[str, int]) -> dict[str, int]:
        """The stored ages, with those of opened directories that this broker did not have last.

        One of them may have been its own before: its age goes on above that.
        """
        others = [] if self._is_alone() else [one.directory_id for one in self._directories.online if one.age.found]
        return {**stored, **{each: await self._known(each) for each in others if each not in stored}}

    async def _known(self, directory_id: str) -> int:
        """An age that cannot be read proves nothing: the start goes on without it."""
        try:
            return await self._coordination.raise_age(directory_id, 0)
        except OSError as fault:
            log.warning("the store cannot tell the age of a log directory: %s. If that directory was put back from a "
                        "copy of its last run, nobody notices. Remove that file: it is made anew", fault)  # fmt: skip
            return 0

    def round(self) -> None:
        """Let the ages of directories grow that were written to; ask for those of the others."""
        if self._is_alone():
            return
        for directory in list(self._directories.online):
            age = directory.age
            if not age.may_grow:
                continue
            written = sum(one.end_offset + one.high_watermark + one.log_start_offset for one in directory.logs.values())
            if written == self._written.get(directory.path):
                self._tell(directory, age.on_disk)
                continue
            self._written[directory.path] = written
            age.on_synced = partial(self._tell, directory)
            age.on_failed = self._around.disk_failed
            self._around.syncer.submit(age)

    def _is_alone(self) -> bool:
        """True if the store goes back with the broker: it is in a log directory, and no other broker uses it."""
        return self._directories.needed is not None and len(self._around.metadata.brokers) <= 1

    def _tell(self, directory: LogDirectory, age: int) -> None:
        slot = self._coordination.raise_age(directory.directory_id, age)
        slot.when_full(lambda: self._told(slot, directory))

    def _told(self, slot: Slot[int], directory: LogDirectory) -> None:
        if slot.error is not None:
            return  # the store cannot be reached: the next round asks again, and without the store the lease ends
        known, here = slot.result(), directory.age.on_disk
        if known > here:
            self._around.failures.stop_for(
                "this machine was put back to an earlier state while the broker ran: the log directory "
                f"{directory.path} had age {known}, and this process knows age {here}. Records that it has forgotten "
                "may have been acknowledged, so the broker stops. Start it again: its directories then count as older "
                "copies, lead nothing, and catch up from other replicas"
            )
