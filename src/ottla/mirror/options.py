"""MirrorMaker 2's options and its property file: which clusters there are, and which flows between them. Pure.

`S->T.name` is for one flow, `S.name` for the clients of one cluster, `name` for all flows. Names that MirrorMaker 2
does not know either are refused, those that have no effect here are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.client.consume.settings import FetchSettings
from ottla.client.model import ClientSettings, IsolationLevel
from ottla.client.security import OPTIONS as SECURITY
from ottla.config.option import nearest
from ottla.connect.checks import between, one_of
from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.errors import ConfigException
from ottla.connect.tasks.clients import below, client_of
from ottla.mirror.policy import NameFilter, ReplicationPolicy

_JAVA: Final = "org.apache.kafka.connect.mirror."
_POLICIES: Final = {f"{_JAVA}DefaultReplicationPolicy": False, f"{_JAVA}IdentityReplicationPolicy": True}
_BROKERS_DECIDE: Final = 0
"""Stands for a replication factor that was not given: Kafka's default, or the number of brokers if that is less."""


def _flag(name: str, default: bool, doc: str) -> Option:  # reads as a table
    return Option(name, Type.BOOLEAN, default, doc=doc)


def _list(name: str, default: list[str], doc: str) -> Option:
    return Option(name, Type.LIST, default, doc=doc)


def _seconds(name: str, default: int, doc: str) -> Option:
    return Option(name, Type.LONG, default, doc=doc, check=between(least=-1))


def _factor(name: str) -> Option:
    return Option(name, Type.INT, _BROKERS_DECIDE, doc="Replication factor", check=between(least=-1))


OPTIONS: Final = ConfigDef(
    _flag("enabled", False, "Whether this flow runs"),
    Option("replication.policy.class", Type.CLASS, f"{_JAVA}DefaultReplicationPolicy", doc="How mirrors are named"),
    Option("replication.policy.separator", Type.STRING, ".", doc="Between an alias and a topic"),
    _flag("replication.policy.internal.topic.separator.enabled", True, "The separator in internal topics, too"),
    _list("topics", [".*"], "Patterns of topics to mirror"),
    _list("topics.exclude", [r"mm2.*\.internal", r".*\.replica", "__.*"], "Patterns of topics that are left out"),
    _list(
        "config.properties.exclude",
        [
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "message.timestamp.difference.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.after.max.ms",
            "message.timestamp.type",
            "unclean.leader.election.enable",
            "min.insync.replicas",
        ],
        "Patterns of topic configurations that are left alone",
    ),
    _flag("refresh.topics.enabled", True, "Look for new topics and partitions"),
    _seconds("refresh.topics.interval.seconds", 600, "How often"),
    _flag("sync.topic.configs.enabled", True, "Keep configurations of topics in step"),
    _seconds("sync.topic.configs.interval.seconds", 600, "How often"),
    _flag("sync.topic.acls.enabled", True, "Make the rules of topics at the target, but for those to write"),
    _seconds("sync.topic.acls.interval.seconds", 600, "How often"),
    _factor("replication.factor"),
    _factor("offset-syncs.topic.replication.factor"),
    Option("offset.lag.max", Type.LONG, 100, doc="Records between two offset syncs", check=between(least=0)),
    Option("offset-syncs.topic.location", Type.STRING, "source", check=one_of("source", "target")),
    _flag("emit.offset-syncs.enabled", True, "Tell of offsets in MirrorMaker 2's topic"),
    _flag("heartbeats.replication.enabled", True, "Mirror the topics of heartbeats"),
    _list("groups", [".*"], "Patterns of groups"),
    _list("groups.exclude", ["console-consumer-.*", "connect-.*", "__.*"], "Patterns of groups that are left out"),
    _flag("emit.checkpoints.enabled", True, "Write translated offsets of groups"),
    _seconds("emit.checkpoints.interval.seconds", 60, "How often"),
    _flag("sync.group.offsets.enabled", False, "Commit translated offsets for groups without members at the target"),
    _seconds("sync.group.offsets.interval.seconds", 60, "How often"),
    _factor("checkpoints.topic.replication.factor"),
    _flag("emit.heartbeats.enabled", True, "Write heartbeats"),
    _seconds("emit.heartbeats.interval.seconds", 1, "How often"),
    _factor("heartbeats.topic.replication.factor"),
    Option("on.gap", Type.STRING, "stop", doc="The source lost records first", check=one_of("stop", "continue")),
    Option("on.reset", Type.STRING, "stop", doc="A topic was made anew", check=one_of("stop", "continue")),
)
_ONLY_DEFAULT: Final = {
    "topic.filter.class": f"{_JAVA}DefaultTopicFilter",
    "group.filter.class": f"{_JAVA}DefaultGroupFilter",
    "config.property.filter.class": f"{_JAVA}DefaultConfigPropertyFilter",
}
_NO_EFFECT: Final = frozenset(
    (
        "tasks.max", "tasks.max.enforce", "admin.timeout.ms", "forwarding.admin.class", "metric.reporters",
        "consumer.poll.timeout.ms", "metric.names.formats", "refresh.groups.enabled",
        "refresh.groups.interval.seconds",
        "config.storage.replication.factor", "offset.storage.replication.factor", "status.storage.replication.factor",
        "dedicated.mode.enable.internal.rest", "listeners", "exactly.once.source.support", "offset.flush.interval.ms",
        "offset.flush.timeout.ms", "key.converter", "value.converter", "header.converter", "plugin.path",
        "plugin.discovery", "connector.class", "name", "use.incremental.alter.configs", "add.source.alias.to.metrics",
        "offset.storage.partitions", "status.storage.partitions", "task.shutdown.graceful.timeout.ms",
    )
)  # fmt: skip
_RENAMED: Final = {"topics.blacklist": "topics.exclude", "groups.blacklist": "groups.exclude",
                   "config.properties.blacklist": "config.properties.exclude"}  # fmt: skip
_CLIENT: Final = frozenset(("client.id", "request.timeout.ms", "default.api.timeout.ms", "metadata.max.age.ms",
                            "retry.backoff.ms", *SECURITY))  # fmt: skip
_FETCH: Final = {"fetch.max.bytes": "max_bytes", "max.partition.fetch.bytes": "max_partition_bytes",
                 "fetch.max.wait.ms": "max_wait_ms", "fetch.min.bytes": "min_bytes"}  # fmt: skip
_OF_CLUSTERS: Final = _CLIENT | {"bootstrap.servers"}
_OF_CONSUMERS: Final = frozenset((*_FETCH, "auto.offset.reset"))
_SIDES: Final = ("consumer.", "producer.", "admin.")
_OF_SIDES: Final = tuple(f"{end}.{side}" for end in ("source", "target") for side in _SIDES)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A cluster of a mirror."""

    alias: str
    bootstrap: str
    client: ClientSettings


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """One flow: from a source to a target."""

    source: ClusterSettings
    target: ClusterSettings
    policy: ReplicationPolicy
    topics: NameFilter
    groups: NameFilter
    configs_left_alone: NameFilter
    fetch: FetchSettings
    start: str
    """`earliest` or `latest`: where a partition begins that was never mirrored."""
    options: Mapping[str, Any]
    """The values of `OPTIONS` by name."""

    @property
    def name(self) -> str:
        """`A->B`."""
        return f"{self.source.alias}->{self.target.alias}"


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The content of a property file."""

    flows: tuple[FlowSettings, ...]
    heartbeats: tuple[FlowSettings, ...]
    """Pairs of clusters whose heartbeats are written: all that are not switched off, as in MirrorMaker 2."""
    without_effect: tuple[str, ...]
    """Names that were given and have no effect here, each with a nearer one that has, if there is one."""


def mirrors_of(given: Mapping[str, str]) -> Mirrors:
    """The flows that a property file declares; ConfigException tells all names that are wrong, or a wrong value."""
    given = {name: value.strip() for name, value in given.items()}
    aliases = [each.strip() for each in given.get("clusters", "").split(",") if each.strip()]
    if len(aliases) < 2:
        raise ConfigException("clusters: name at least two clusters, for example clusters = A, B")
    without_effect = _check_names(given, aliases)
    pairs = [(source, target) for source in aliases for target in aliases if source != target]
    made = [_flow(given, source, target) for source, target in pairs]
    flows = tuple(flow for flow in made if flow.options["enabled"])
    if not flows:
        raise ConfigException(f"no flow is enabled: write for example {aliases[0]}->{aliases[1]}.enabled = true")
    _refuse_two_ways(flows)
    beats = tuple(flow for flow in made if flow.options["emit.heartbeats.enabled"])
    return Mirrors(flows, beats, tuple(without_effect))


def _refuse_two_ways(flows: Iterable[FlowSettings]) -> None:
    """With names kept, a topic that is mirrored both ways would go round for ever: patterns must tell them apart."""
    both = {(flow.source.alias, flow.target.alias): flow for flow in flows if flow.policy.keeps_names}
    for (source, target), flow in both.items():
        other = both.get((target, source))
        if other is not None and flow.options["topics"] == other.options["topics"]:
            raise ConfigException(
                f"{flow.name} and {other.name} mirror the same topics under the same names: records would go round "
                f"for ever. Give each its own {flow.name}.topics, or take DefaultReplicationPolicy"
            )


def _flow(given: Mapping[str, str], source: str, target: str) -> FlowSettings:
    own = {name: value for name, value in given.items() if name in OPTIONS.options or name in _RENAMED}
    own |= below(given, f"{source}->{target}.")
    own = {_RENAMED.get(name, name): value for name, value in own.items()}
    options = OPTIONS.parse({name: value for name, value in own.items() if name in OPTIONS.options})
    separator = options["replication.policy.separator"]
    internal = separator if options["replication.policy.internal.topic.separator.enabled"] else "."
    policy = ReplicationPolicy(separator, internal, _keeps_names(options["replication.policy.class"]), source)
    consumer = below(given, "consumer.") | below(given, "source.consumer.") | below(given, f"{source}.consumer.")
    consumer |= below(own, "consumer.") | below(own, "source.consumer.")
    start = consumer.get("auto.offset.reset", "earliest")
    if start not in ("earliest", "latest"):
        raise ConfigException.of("consumer.auto.offset.reset", start, "String must be one of: earliest, latest")
    try:
        fetch = FetchSettings(
            isolation_level=IsolationLevel.READ_COMMITTED,
            check_crcs=False,
            max_bytes=int(consumer.get("fetch.max.bytes", 16 * 1024 * 1024)),
            **{
                place: int(consumer[name])
                for name, place in _FETCH.items()
                if name in consumer and place != "max_bytes"
            },
        )
        return FlowSettings(
            _cluster(given, source), _cluster(given, target), policy,
            NameFilter(options["topics"], options["topics.exclude"]),
            NameFilter(options["groups"], options["groups.exclude"]),
            NameFilter(options["config.properties.exclude"], ()), fetch, start, options,
        )  # fmt: skip
    except ValueError as fault:
        raise ConfigException(f"{source}->{target}: {fault}") from None


def _keeps_names(java_class: str) -> bool:
    for known, keeps in _POLICIES.items():
        if java_class in (known, known.rpartition(".")[2]):
            return keeps
    raise ConfigException.of("replication.policy.class", java_class, f"the policies here are {' and '.join(_POLICIES)}")


def _cluster(given: Mapping[str, str], alias: str) -> ClusterSettings:
    own = {name: value for name, value in given.items() if name in _CLIENT} | below(given, f"{alias}.")
    if not own.get("bootstrap.servers"):
        raise ConfigException(f"{alias}.bootstrap.servers is missing: write the addresses of the cluster {alias}")
    bootstrap, client = client_of(own)
    return ClusterSettings(alias, bootstrap, replace(client, client_id=own.get("client.id", "ottla-mirror")))


def _check_names(given: Mapping[str, str], aliases: list[str]) -> list[str]:
    """The names that have no effect here; ConfigException for those that nobody knows."""
    flows = {f"{source}->{target}." for source in aliases for target in aliases if source != target}
    known = [*OPTIONS.options, *_NO_EFFECT, *_ONLY_DEFAULT, *_RENAMED, *_CLIENT]
    without_effect, wrong = [], []
    for name, value in given.items():
        prefix = next((each for each in (*flows, *(f"{alias}." for alias in aliases)) if name.startswith(each)), "")
        rest = name[len(prefix) :]
        rest = rest.removeprefix("source.") if rest.startswith("source.consumer.") else rest
        side = next((each for each in _SIDES if rest.startswith(each)), "")
        if side or (prefix and prefix not in flows):
            known_here = _OF_CONSUMERS if side == "consumer." else frozenset() if side else _OF_CLUSTERS
            effective = rest[len(side) :] in known_here
            if not effective and rest not in OPTIONS.options:
                without_effect.append(name + nearest(rest[len(side) :], known_here))
            elif not effective:
                wrong.append(f"{name}: this is no option of a cluster; write it for a flow, as {aliases[0]}->"
                             f"{aliases[1]}.{rest}, or for all, as {rest}")  # fmt: skip
        elif rest in _ONLY_DEFAULT:
            if value not in (_ONLY_DEFAULT[rest], _ONLY_DEFAULT[rest].rpartition(".")[2]):
                wrong.append(f"{name}: a filter of your own is a Java class; here topics and groups are patterns")
        elif rest in _NO_EFFECT or rest.startswith(("config.providers", *_OF_SIDES)):
            without_effect.append(name)
        elif rest not in OPTIONS.options and rest not in _RENAMED and rest not in _CLIENT and name != "clusters":
            wrong.append(f"Unknown configuration '{name}'{nearest(rest, known)}")
    if wrong:
        raise ConfigException("\n".join(wrong))
    return without_effect
