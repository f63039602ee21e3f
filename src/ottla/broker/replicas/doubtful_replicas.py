"""Replicas that are not what they were when this broker last registered: damaged, short, missing, or an older copy.

The registration names them (node.py, rule A7), and the cluster no longer counts them in sync (cluster/partitions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.cluster.broker_commands import ReplicasByTopic, RolledBack
from ottla.kernel.ids import TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.log_directories import LogDirectories
    from ottla.storage.log import Log

Key = tuple[bytes, int]


class DoubtfulReplicas:
    """A part of `LogDirectories`, used once its directories are open."""

    def __init__(self, around: Environment, directories: LogDirectories) -> None:
        self._around = around
        self._directories = directories

    def damaged(self) -> ReplicasByTopic:
        """Replicas with damage below their recovery point: they may not lead (rule A7).

        Nor may replicas that are missing because a directory was replaced: where they were the last in sync, they would
        lead with an empty log, and other replicas would cut off their records. Another replica has to lead, or an
        administrator to decide.
        """
        found = {key for key, opened in self._directories.recovered.items() if opened.damaged_at is not None}
        found.update(key for key, lost in self.missing() if lost)
        return by_topic(sorted(found - self._directories.unreadable.by_key.keys()))

    def unreadable(self) -> ReplicasByTopic:
        """Replicas that could not be opened. The cluster decides whether another one counts, as brokers register."""
        return by_topic(sorted(self._directories.unreadable.by_key))

    def short(self) -> ReplicasByTopic:
        """Replicas that may lack the last acknowledged records: written without syncs, and without a clean stop.

        Also replicas with another end than before: a torn end cannot reach there, so records are damaged or missing.
        And missing replicas that count as complete, if no other copy can have their records: a crash came before their
        creation, or the only disk of a broker without other replicas was replaced.
        """
        found = [key for key, opened in self._directories.recovered.items() if self.is_short(opened)]
        found += (key for key, lost in self.missing() if not lost)
        return by_topic(sorted(set(found)))

    def is_short(self, opened: Log) -> bool:
        """True if a log that was just opened may lack its end."""
        directory = self._directories.of(opened)
        committed = directory.offsets.high_watermark(TopicPartition(opened.topic, opened.partition))
        doubtful = not directory.clean or self._directories.incarnations.is_older(directory)
        lacks_end = opened.recovered.lacks_end or opened.end_offset < committed
        return (opened.write_caching and doubtful) or lacks_end

    def rolled_back(self) -> tuple[RolledBack, ...]:
        """Replicas in older copies of directories, and missing ones: an older directory may be from before their
        creation. With `write.caching` such replicas count as short instead, and wait for no other replica."""
        missing = [key for key, _ in self.missing()]
        directories = self._directories
        found: list[RolledBack] = []
        for directory in directories.online:
            if (older := directories.incarnations.older.get(directory.path)) is not None:
                inside = (key for key, opened in directories.recovered.items() if directories.of(opened) is directory)
                last = [key for key in sorted({*missing, *inside}) if not self._is_cached(key)]
                found.append(older._replace(replicas=by_topic(last)))
        return tuple(found)

    def _is_cached(self, key: Key) -> bool:
        return self._around.options.topic_config(self._around.metadata.topics[TopicId(key[0])]).write_caching

    def missing(self) -> Iterator[tuple[Key, bool]]:
        """Pairs of (missing replica, whether another broker or directory of ours may hold its records).

        A log in a directory that is new since the last registration counts as missing, as it may be an older one. With
        `write.caching` acknowledged records need not last, so a replica that lost some need not wait for others.
        """
        here, several = self._around.broker, len(self._directories.known) > 1
        if not self._directories.online:
            return
        for topic_id, topic in sorted(self._around.metadata.topics.items()):
            lasts = self._directories.replaced and not self._around.options.topic_config(topic).write_caching
            for state in topic.partitions:
                counts = here in state.in_sync or here in state.eligible
                key = (bytes(topic_id), state.partition)
                if counts and key not in self._directories.offline and not self._is_the_one(key):
                    yield key, lasts and (several or len(state.replicas) > 1)

    def _is_the_one(self, key: Key) -> bool:
        """True if the log is here, in a directory that was known when this broker last registered."""
        directories = self._directories
        opened = None if key in directories.outlived else directories.recovered.get(key)
        return opened is not None and (
            not directories.known or directories.of(opened).directory_id in directories.known
        )


def by_topic(keys: Sequence[Key]) -> ReplicasByTopic:
    """Replicas in the form that commands take: indexes by topic id."""
    found: dict[TopicId, list[int]] = {}
    for topic_id, index in keys:
        found.setdefault(TopicId(topic_id), []).append(index)
    return tuple((topic_id, tuple(indexes)) for topic_id, indexes in found.items())
