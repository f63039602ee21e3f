"""Topics at the target as they are at the source: which are mirrored, their partitions and configurations.

The choice and the differences are pure; `Topics` asks the two clusters and carries them out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.admin.admin import ConfigOperation, ConfigSource, NewTopic, Resource, ResourceType
from ottla.client.aio.admin import Admin
from ottla.client.aio.cluster import Cluster
from ottla.client.model import EARLIEST, LATEST, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.describe_configs import DescribeConfigsResourceResult
from ottla.mirror.notes import MirrorNotes, MirrorOrigin, origins_of
from ottla.mirror.options import FlowSettings
from ottla.mirror.policy import NameFilter
from ottla.records.reader import read_run

Change = tuple[str, ConfigOperation, str | None]
KAFKAS_FACTORS: Final = {"replication.factor": 2}
_OTHER_FACTOR: Final = 3
log = logging.getLogger("ottla.mirror")


def chosen(flow: FlowSettings, topics: Iterable[str]) -> list[str]:
    """The topics of the source that the flow mirrors, by their names."""
    found = []
    for topic in sorted(topics):
        if flow.policy.is_internal(topic) or flow.policy.passed_through(topic, flow.target.alias):
            continue
        beats = flow.options["heartbeats.replication.enabled"] and flow.policy.is_heartbeats(topic)
        if beats or flow.topics.takes(topic):
            found.append(topic)
    return found


def differences(
    source: Iterable[DescribeConfigsResourceResult],
    target: Iterable[DescribeConfigsResourceResult],
    left_alone: NameFilter,
) -> list[Change]:
    """The changes that make a mirror's own configurations those of the source; unknown names are left out."""
    wanted = _own(source)
    present, known = _own(target), {each.name for each in target}
    changes: list[Change] = []
    for name in sorted((wanted.keys() | present.keys()) & known):
        if left_alone.takes(name) or wanted.get(name) == present.get(name):
            continue
        if name in wanted:
            changes.append((name, ConfigOperation.SET, wanted[name]))
        else:
            changes.append((name, ConfigOperation.DELETE, None))
    return changes


def _own(configs: Iterable[DescribeConfigsResourceResult]) -> dict[str, str | None]:
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG
    return {each.name: each.value for each in configs if each.config_source == own and not each.is_sensitive}


async def make_internal(cluster: Cluster, topic: str, factor: int) -> None:
    """Create a topic of the mirror's own, compacted and with one partition, where it does not exist."""
    made = await Admin(cluster=cluster).create_topics([NewTopic(topic, 1, factor, {"cleanup.policy": "compact"})])
    outcome = made[topic]
    if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome


async def factor_of(flow: FlowSettings, target: Cluster, name: str) -> int:
    """A replication factor as it was given, else Kafka's default or the number of brokers, if that is less."""
    given: int = flow.options[name]
    if given:
        return given
    usual, brokers = KAFKAS_FACTORS.get(name, _OTHER_FACTOR), len(await target.brokers())
    if brokers < usual:
        log.info("%s: %s is %d, as there are no more brokers; Kafka's default is %d", flow.name, name, brokers, usual)
    return min(usual, brokers)


class MirroredTopics:
    """Keeps the target's topics in step."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster, notes: MirrorNotes) -> None:
        self.flow, self.notes = flow, notes
        self.source, self.target = source, target
        self.source_cluster = self.target_cluster = ""
        """The ids of the clusters."""
        self._source_admin, self._target_admin = Admin(cluster=source), Admin(cluster=target)
        self._refused: set[str] = set()
        self._origins: dict[str, MirrorOrigin] = {}
        """The origins of the source's topics."""

    async def meet(self) -> None:
        """Learn the ids of both clusters; refuses a flow from a cluster to itself."""
        self.source_cluster = (await self._source_admin.describe_cluster()).cluster_id
        self.target_cluster = (await self._target_admin.describe_cluster()).cluster_id
        if self.source_cluster == self.target_cluster:
            raise ValueError(
                f"{self.flow.name}: both aliases are the cluster {self.source_cluster}; a mirror to itself would copy "
                "its own copies for ever. Give one of them the addresses of another cluster"
            )

    async def ensure_checkpoints(self) -> None:
        """Create the topic of checkpoints where it does not exist and checkpoints are written."""
        if self.flow.options["emit.checkpoints.enabled"]:
            factor = await factor_of(self.flow, self.target, "checkpoints.topic.replication.factor")
            name = self.flow.policy.checkpoints_topic(self.flow.source.alias)
            await make_internal(self.target, name, factor)

    async def refresh(self) -> dict[str, tuple[TopicView, TopicView]]:
        """Make topics and partitions that are missing; the views at the source and the target by the source's name."""
        there = await self.source.topics()
        names = await self._without_loops(chosen(self.flow, (each for each, view in there.items() if not view.error)))
        remote = {name: self.flow.policy.remote_topic(self.flow.source.alias, name) for name in names}
        here = await self.target.topics()
        new = [name for name in names if remote[name] not in here]
        if new:
            await self._create(new, remote, there)
        fewer = {
            remote[name]: len(there[name].partitions)
            for name in names
            if remote[name] in here and len(here[remote[name]].partitions) < len(there[name].partitions)
        }
        if fewer:
            for topic, fault in (await self._target_admin.create_partitions(fewer)).items():
                if fault is not None:
                    log.error("%s: %s has too few partitions: %s", self.flow.name, topic, fault.message)
        if new or fewer:
            here = await self.target.topics()
        return {name: (there[name], here[remote[name]]) for name in names if remote[name] in here}

    async def _create(self, new: list[str], remote: Mapping[str, str], there: Mapping[str, TopicView]) -> None:
        factor = await factor_of(self.flow, self.target, "replication.factor")
        configs = await self._configs(self._source_admin, new)
        wanted = [
            NewTopic(
                remote[name],
                len(there[name].partitions),
                factor,
                {each: value for each, value in _own(configs.get(name, ())).items()
                 if value is not None and not self.flow.configs_left_alone.takes(each)},
            )
            for name in new
        ]  # fmt: skip
        made = await self._target_admin.create_topics(wanted)
        for each in wanted:
            outcome = made[each.name]
            if isinstance(outcome, ApiError) and outcome.code is ErrorCode.INVALID_CONFIG:
                why = outcome.message
                log.warning("%s: %s is made without configurations of its own: %s", self.flow.name, each.name, why)
                outcome = (await self._target_admin.create_topics([each._replace(configs={})]))[each.name]
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                log.error("%s: %s cannot be made at the target: %s", self.flow.name, each.name, outcome.message)

    async def sync_configs(self, topics: Mapping[str, tuple[TopicView, TopicView]]) -> None:
        """Make the configurations of mirrors those of the source."""
        remote = {name: here.name for name, (_, here) in topics.items()}
        source = await self._configs(self._source_admin, list(remote))
        target = await self._configs(self._target_admin, list(remote.values()))
        changes = {
            Resource(ResourceType.TOPIC, remote[name]): found
            for name in remote
            if name in source and remote[name] in target
            and (found := differences(source[name], target[remote[name]], self.flow.configs_left_alone))
        }  # fmt: skip
        if changes:
            for resource, fault in (await self._target_admin.alter_configs(changes)).items():
                if fault is not None:
                    log.error("%s: configurations of %s are not in step: %s", self.flow.name, resource.name, fault)

    async def _configs(self, admin: Admin, topics: list[str]) -> dict[str, list[DescribeConfigsResourceResult]]:
        if not topics:
            return {}
        found = await admin.describe_configs([Resource(ResourceType.TOPIC, each) for each in topics])
        return {each.name: configs for each, configs in found.items() if not isinstance(configs, Exception)}

    async def looping(self, names: Iterable[str]) -> set[str]:
        """The topics whose records came through the target before, whatever they are called."""
        origins = await self._origins_at_source()
        self._origins = origins
        return {name for name in names if name in origins and self.target_cluster in origins[name].clusters}

    async def _without_loops(self, names: list[str]) -> list[str]:
        """The topics that may be mirrored; where they come from is noted for the next cluster."""
        looping = await self.looping(names)
        for name in sorted(looping - self._refused):
            log.error(
                "%s: %s is not mirrored: its records come from the target itself, the cluster %s; they would go round "
                "for ever",
                self.flow.name,
                name,
                self.target_cluster,
            )
        self._refused |= looping
        kept = [name for name in names if name not in looping]
        new: dict[str, MirrorOrigin] = {}
        for name in kept:
            came = self._origins[name].clusters if name in self._origins else ()
            remote = self.flow.policy.remote_topic(self.flow.source.alias, name)
            new[remote] = MirrorOrigin(name, (*came, self.source_cluster))
        await self.notes.keep_origins(new)
        return kept

    async def _origins_at_source(self) -> dict[str, MirrorOrigin]:
        """The origins of the source's topics, as the mirrors that write there have noted it."""
        found: dict[str, MirrorOrigin] = {}
        mark = self.flow.policy.map_topic("")[: -len(f"{self.flow.policy.internal_separator}internal")]
        for topic in await self.source.topics():
            if not topic.startswith(mark):
                continue
            [partition] = await self.source.partitions(topic)
            first = (await self.source.list_offsets([partition], EARLIEST))[partition].offset
            last = (await self.source.list_offsets([partition], LATEST))[partition].offset
            pairs = []
            async for piece in self.source.fetch_range(*partition, first, last):
                pairs += [(record.key, record.value) for record in read_run(piece.records) if record.key]
            try:
                found |= origins_of(pairs)
            except (ValueError, KeyError, json.JSONDecodeError) as fault:
                log.warning("%s: %s at the source is not a mirror's topic: %s", self.flow.name, topic, fault)
        return found
