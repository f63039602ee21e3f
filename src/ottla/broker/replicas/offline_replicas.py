"""Reports replicas whose log directory has failed, in one append: they neither lead nor count as in sync.

Called by reconcile.py when the metadata has changed, by directory_failures.py when a directory fails, and by
reopening.py when a replica is served again; cluster/brokers.py decides the entries. A report may get lost (a broker of
an older release writes the partition anew), so it is checked each time, and repeated.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.replicas.doubtful_replicas import Key, by_topic
from ottla.broker.replicas.log_directories import LogDirectories
from ottla.cluster.broker_commands import BringOnline, TakeOffline
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicId

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.metadata_log.command_queue import Outcome

log = logging.getLogger("ottla.replicas")
_AGAIN_MS = 500


class OfflineReplicas:
    """Reports which replicas of this broker are offline, until the cluster knows."""

    def __init__(self, around: Environment, directories: LogDirectories) -> None:
        self._around = around
        self._directories = directories
        self._busy = False
        self._online: dict[Key, bool] = {}
        """Replicas that were offline and are served again; true while the cluster is to be told of a missing end."""

    def holds(self, topic_id: bytes, index: int) -> bool:
        return (topic_id, index) in self._directories.offline

    def look(self) -> None:
        """Report the offline replicas that the cluster does not know yet."""
        offline, metadata = self._directories.offline, self._around.metadata
        if not (offline or self._online) or self._busy:
            return
        here, untold = self._around.broker, []
        for key in sorted(offline):
            state = metadata.partition(*key)
            if state is None or here not in state.replicas:
                if TopicId(key[0]) not in metadata.topics or state is not None:
                    del offline[key]  # if the directory comes back, this log is a stray
            elif here not in state.offline:
                untold.append(key)
        if untold:
            self._tell(TakeOffline(by_topic(untold)))
        elif untold := self._untold_online():
            self._tell(BringOnline(by_topic(untold), short=by_topic([key for key in untold if self._online[key]])))

    def _untold_online(self) -> list[Key]:
        """Replicas served again here that the metadata still lists as offline.

        The list is checked at every look, as a lost report may be applied late.
        """
        untold: list[Key] = []
        for key in sorted(self._online):
            state = self._around.metadata.partition(*key)
            if state is None or key in self._directories.offline:
                del self._online[key]
            elif self._around.broker in state.offline:
                untold.append(key)
        return untold

    def is_online(self, key: Key, *, short: bool) -> None:
        """Serve a replica that was offline; `short`: its log may lack its end."""
        self._online[key] = short
        self.look()

    def _tell(self, report: TakeOffline | BringOnline) -> None:
        self._busy = True
        slot = self._around.follow.submit(report)
        slot.when_full(lambda: self._told(report, slot.result()))

    def _told(self, report: TakeOffline | BringOnline, outcome: Outcome) -> None:
        self._busy = False
        if isinstance(outcome, ApiError):
            log.warning("the cluster could not be told of offline replicas, trying again: %s", outcome)
            self._around.deadlines.after(_AGAIN_MS, self.look)
        else:  # the report is applied here by now; another directory may have failed meanwhile
            if isinstance(report, BringOnline):
                told = {(bytes(topic_id), index) for topic_id, some in report.short for index in some}
                self._online.update((key, False) for key in told & self._online.keys())
            self.look()
