"""Broker options a server.properties may have that are not in `broker.py`: topic defaults, and those without effect.

Read on demand: most starts never need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ottla.config.broker import BrokerConfig
from ottla.config.group import GroupConfig
from ottla.config.option import Check, Option, OptionKind, OptionStatus, Scope, at_least
from ottla.config.security import LISTENER_OPTIONS
from ottla.config.topic import TopicConfig
from ottla.config.zookeeper import ZookeeperConfig

_SCOPES = {"R": Scope.READ_ONLY, "P": Scope.PER_BROKER, "C": Scope.CLUSTER_WIDE}
_WHY = (
    ("controller.", "There is no controller quorum: brokers agree through the coordination store."),
    ("metadata.", "There is no metadata quorum: brokers agree through the coordination store."),
    ("process.roles", "There is no controller quorum: every node is a broker."),
    ("internal.", "An internal option of Apache Kafka."),
    ("remote.", "Tiered storage is not there."),
    ("log.local.", "Tiered storage is not there."),
    ("sasl.login.", "Brokers prove themselves to one another by the cluster's own secret."),
    ("sasl.oauthbearer.", "Brokers prove themselves to one another by the cluster's own secret."),
    ("sasl.", "The mechanisms here have no use for it."),
    ("ssl.", "TLS is OpenSSL's here, which has no use for it."),
    ("security.", "Brokers prove themselves to one another by the cluster's own secret."),
    ("delegation.", "Expired tokens are forgotten when a new one is made."),
    ("group.share.", "Share groups are not announced."),
    ("share.", "Share groups are not announced."),
    ("group.streams.", "Streams groups are not announced."),
    ("transaction.two.phase", "Two-phase commit (KIP-939) is not there."),
    ("quota.", "Quotas count over eleven samples of a second."),
    ("client.quota.", "Quotas are those in the metadata; no callback is asked."),
    ("controller.quota.", "Quotas count over eleven samples of a second."),
    ("metric", "Metrics are served in Prometheus' text format; there are no reporters."),
    ("kafka.metrics", "Metrics are served in Prometheus' text format; there are no reporters."),
)
"""By prefix, the first that fits: why an option has no effect."""
_OLDER_ID = Option("broker.id", -1, OptionKind.INT, doc="The older name of node.id, which counts where both are given.")
_ELSE = "It tunes a part of Apache Kafka that is built in another way here."

_UNSET_TIMES = {
    "log.flush.interval.ms": None,
    "log.flush.scheduler.interval.ms": (1 << 63) - 1,
    "log.retention.hours": 168,
    "log.retention.minutes": None,
    "log.retention.ms": None,
    "log.roll.hours": 168,
    "log.roll.jitter.hours": 0,
    "log.roll.jitter.ms": None,
    "log.roll.ms": None,
}
"""Kafka gives these times in several units; the finest that is set wins, and the coarsest has the default."""

_LEAST_WHOLE = {"log.retention.hours": -1, "log.retention.minutes": -1, "log.roll.hours": 1, "log.roll.jitter.hours": 0}
"""The least value of each option in hours or minutes: a lower one would give topics a default that none may have."""


@cache
def broker_options() -> Mapping[str, Option]:
    """Every broker option by name, in the order of names."""
    options = {
        declared.name: declared
        for declared in (*BrokerConfig.OPTIONS, *LISTENER_OPTIONS.values(), *ZookeeperConfig.OPTIONS)
    }
    for declared in _topic_defaults():
        options.setdefault(declared.name, declared)
    options[_OLDER_ID.name] = _OLDER_ID
    group_checks = {synonym.name: of_group.check for of_group in GroupConfig.OPTIONS for synonym in of_group.synonyms}
    for line in _WITHOUT_EFFECT.splitlines():
        declared = _without_effect(line, group_checks)
        options.setdefault(declared.name, declared)
    return dict(sorted(options.items()))


def _topic_defaults() -> list[Option]:
    """The broker options that are a topic option's default under another name."""
    found = []
    for topic in TopicConfig.OPTIONS:
        for synonym in topic.synonyms:
            name = synonym.name
            coarse = synonym.factor > 1 or name == "log.flush.scheduler.interval.ms"
            whole = name.endswith(("hours", "minutes"))
            found.append(
                Option(
                    name,
                    _UNSET_TIMES.get(name, topic.default),
                    OptionKind.INT if whole else topic.kind,
                    check=at_least(_LEAST_WHOLE[name]) if whole else topic.check,
                    doc=f"The default of the topic option {topic.name}. {topic.doc}",
                    status=topic.status,
                    scope=Scope.READ_ONLY if coarse else Scope.CLUSTER_WIDE,
                )
            )
    return found


def _without_effect(line: str, group_checks: Mapping[str, Check | None]) -> Option:
    """`group_checks`, by name: groups have their defaults from these options, so that values must do for a group."""
    name, kind_name, text, scope = line.split(" ")
    kind = OptionKind[kind_name]
    why = next((why for prefix, why in _WHY if name.startswith(prefix)), _ELSE)
    declared = Option(
        name,
        None,
        kind,
        check=group_checks.get(name),
        doc=f"Accepted, without effect. {why}",
        status=OptionStatus.NO_EFFECT,
        scope=_SCOPES[scope[0]],
        internal=scope.endswith("I"),
    )
    if text != "~":
        declared.default = declared.parse("" if text == "''" else text)
    return declared


# Name, type, Apache Kafka 4.3's default (~ is null), scope (R, P, C; I where Kafka calls it internal).
_WITHOUT_EFFECT = """\
add.partitions.to.txn.retry.backoff.max.ms INT 100 R
add.partitions.to.txn.retry.backoff.ms INT 20 R
alter.log.dirs.replication.quota.window.num INT 11 R
alter.log.dirs.replication.quota.window.size.seconds INT 1 R
background.threads INT 10 C
client.quota.callback.class CLASS ~ R
controller.listener.names LIST ~ R
controller.performance.always.log.threshold.ms LONG 2000 RI
controller.performance.sample.period.ms LONG 60000 RI
controller.quorum.append.linger.ms INT 25 R
controller.quorum.auto.join.enable BOOLEAN false R
controller.quorum.bootstrap.servers LIST '' R
controller.quorum.election.backoff.max.ms INT 1000 R
controller.quorum.election.timeout.ms INT 1000 R
controller.quorum.fetch.max.bytes INT 1048576 R
controller.quorum.fetch.snapshot.max.bytes INT 1048576 R
controller.quorum.fetch.timeout.ms INT 2000 R
controller.quorum.request.timeout.ms INT 2000 R
controller.quorum.retry.backoff.ms INT 20 R
controller.quorum.voters LIST '' R
controller.quota.window.num INT 11 R
controller.quota.window.size.seconds INT 1 R
controller.socket.timeout.ms INT 30000 R
cordoned.log.dirs LIST '' P
delegation.token.expiry.check.interval.ms LONG 3600000 R
delete.records.purgatory.purge.interval.requests INT 1 R
early.start.listeners LIST ~ R
fetch.purgatory.purge.interval.requests INT 1000 R
follower.fetch.last.tiered.offset.enable BOOLEAN false C
group.coordinator.append.linger.ms INT -1 R
group.coordinator.background.threads INT 2 R
group.coordinator.cached.buffer.max.bytes INT 1048588 C
group.coordinator.rebalance.protocols LIST classic,consumer,streams R
group.coordinator.threads INT 4 R
group.share.assignment.interval.ms INT 1000 C
group.share.assignors LIST simple R
group.share.delivery.count.limit INT 5 R
group.share.heartbeat.interval.ms INT 5000 R
group.share.initialize.retry.interval.ms INT 30000 RI
group.share.max.assignment.interval.ms INT 15000 R
group.share.max.delivery.count.limit INT 10 R
group.share.max.heartbeat.interval.ms INT 15000 R
group.share.max.partition.max.record.locks INT 4000 R
group.share.max.record.lock.duration.ms INT 60000 R
group.share.max.session.timeout.ms INT 60000 R
group.share.max.share.sessions INT 2000 R
group.share.max.size INT 200 R
group.share.min.assignment.interval.ms INT 0 R
group.share.min.delivery.count.limit INT 2 R
group.share.min.heartbeat.interval.ms INT 5000 R
group.share.min.partition.max.record.locks INT 100 R
group.share.min.record.lock.duration.ms INT 15000 R
group.share.min.session.timeout.ms INT 45000 R
group.share.partition.max.record.locks INT 2000 R
group.share.persister.class.name STRING org.apache.kafka.server.share.persister.DefaultStatePersister RI
group.share.record.lock.duration.ms INT 30000 R
group.share.session.timeout.ms INT 45000 R
group.streams.assignment.interval.ms INT 1000 C
group.streams.heartbeat.interval.ms INT 5000 R
group.streams.initial.rebalance.delay.ms INT 3000 R
group.streams.max.assignment.interval.ms INT 15000 R
group.streams.max.heartbeat.interval.ms INT 15000 R
group.streams.max.session.timeout.ms INT 60000 R
group.streams.max.size INT 2147483647 R
group.streams.max.standby.replicas INT 2 R
group.streams.min.assignment.interval.ms INT 0 R
group.streams.min.heartbeat.interval.ms INT 5000 R
group.streams.min.session.timeout.ms INT 45000 R
group.streams.num.standby.replicas INT 0 R
group.streams.session.timeout.ms INT 45000 R
initial.broker.registration.timeout.ms INT 60000 R
internal.metadata.delete.delay.millis LONG 60000 RI
internal.metadata.log.segment.bytes INT ~ RI
internal.metadata.max.batch.size.in.bytes INT 8388608 RI
kafka.metrics.polling.interval.secs INT 10 R
kafka.metrics.reporters LIST '' R
log.cleaner.dedupe.buffer.size LONG 134217728 C
log.cleaner.io.buffer.load.factor DOUBLE 0.9 C
log.cleaner.io.buffer.size INT 524288 C
log.cleaner.threads INT 1 C
log.dir.failure.timeout.ms LONG 30000 R
log.flush.start.offset.checkpoint.interval.ms INT 60000 R
log.initial.task.delay.ms LONG 30000 RI
metadata.log.dir STRING ~ R
metadata.log.max.record.bytes.between.snapshots LONG 20971520 R
metadata.log.max.snapshot.interval.ms LONG 3600000 R
metadata.log.segment.bytes INT 1073741824 R
metadata.log.segment.ms LONG 604800000 R
metadata.max.idle.interval.ms INT 500 R
metadata.max.retention.bytes LONG 104857600 R
metadata.max.retention.ms LONG 604800000 R
metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter C
metrics.num.samples INT 2 R
metrics.recording.level STRING INFO R
metrics.sample.window.ms LONG 30000 R
num.io.threads INT 8 C
num.network.threads INT 3 C
num.recovery.threads.per.data.dir INT 2 C
num.replica.alter.log.dirs.threads INT ~ R
num.replica.fetchers INT 1 C
offsets.load.buffer.size INT 5242880 R
offsets.topic.compression.codec INT 0 R
principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder P
process.roles LIST ~ R
producer.id.expiration.check.interval.ms INT 600000 RI
producer.purgatory.purge.interval.requests INT 1000 R
queued.max.request.bytes LONG -1 R
queued.max.requests INT 500 R
quota.window.num INT 11 R
quota.window.size.seconds INT 1 R
remote.fetch.max.wait.ms INT 500 C
remote.list.offsets.request.timeout.ms LONG 30000 C
remote.log.index.file.cache.total.size.bytes LONG 1073741824 C
remote.log.index.file.cache.ttl.ms LONG 900000 RI
remote.log.manager.copier.thread.pool.size INT 10 C
remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 C
remote.log.manager.copy.quota.window.num INT 11 R
remote.log.manager.copy.quota.window.size.seconds INT 1 R
remote.log.manager.expiration.thread.pool.size INT 10 C
remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 C
remote.log.manager.fetch.quota.window.num INT 11 R
remote.log.manager.fetch.quota.window.size.seconds INT 1 R
remote.log.manager.follower.thread.pool.size INT 2 C
remote.log.manager.task.interval.ms LONG 30000 R
remote.log.manager.task.retry.backoff.max.ms LONG 30000 RI
remote.log.manager.task.retry.backoff.ms LONG 500 RI
remote.log.manager.task.retry.jitter DOUBLE 0.2 RI
remote.log.manager.thread.pool.size INT 2 R
remote.log.metadata.custom.metadata.max.bytes INT 128 R
remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager R
remote.log.metadata.manager.class.path STRING ~ R
remote.log.metadata.manager.impl.prefix STRING rlmm.config. R
remote.log.metadata.manager.listener.name STRING ~ R
remote.log.reader.max.pending.tasks INT 100 R
remote.log.reader.threads INT 10 C
remote.log.storage.manager.class.name STRING ~ R
remote.log.storage.manager.class.path STRING ~ R
remote.log.storage.manager.impl.prefix STRING rsm.config. R
replica.socket.receive.buffer.bytes INT 65536 R
replication.quota.window.num INT 11 R
replication.quota.window.size.seconds INT 1 R
request.timeout.ms INT 30000 R
sasl.client.callback.handler.class CLASS ~ R
sasl.kerberos.kinit.cmd STRING /usr/bin/kinit P
sasl.kerberos.min.time.before.relogin LONG 60000 P
sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 P
sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 P
sasl.login.callback.handler.class CLASS ~ R
sasl.login.class CLASS ~ R
sasl.login.connect.timeout.ms INT ~ R
sasl.login.read.timeout.ms INT ~ R
sasl.login.refresh.buffer.seconds SHORT 300 P
sasl.login.refresh.min.period.seconds SHORT 60 P
sasl.login.refresh.window.factor DOUBLE 0.8 P
sasl.login.refresh.window.jitter DOUBLE 0.05 P
sasl.login.retry.backoff.max.ms LONG 10000 R
sasl.login.retry.backoff.ms LONG 100 R
sasl.mechanism.controller.protocol STRING GSSAPI R
sasl.mechanism.inter.broker.protocol STRING GSSAPI P
sasl.oauthbearer.assertion.algorithm STRING RS256 R
sasl.oauthbearer.assertion.claim.aud STRING ~ R
sasl.oauthbearer.assertion.claim.exp.seconds INT 300 R
sasl.oauthbearer.assertion.claim.iss STRING ~ R
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false R
sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 R
sasl.oauthbearer.assertion.claim.sub STRING ~ R
sasl.oauthbearer.assertion.file STRING ~ R
sasl.oauthbearer.assertion.private.key.file STRING ~ R
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD ~ R
sasl.oauthbearer.assertion.template.file STRING ~ R
sasl.oauthbearer.client.credentials.client.id STRING ~ R
sasl.oauthbearer.client.credentials.client.secret PASSWORD ~ R
sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever R
sasl.oauthbearer.scope STRING ~ R
sasl.oauthbearer.token.endpoint.url STRING ~ R
security.inter.broker.protocol STRING PLAINTEXT R
security.providers STRING ~ R
server.max.startup.time.ms LONG 9223372036854775807 RI
share.coordinator.append.linger.ms INT -1 R
share.coordinator.cached.buffer.max.bytes INT 1048588 C
share.coordinator.cold.partition.snapshot.interval.ms INT 300000 RI
share.coordinator.load.buffer.size INT 5242880 R
share.coordinator.snapshot.update.records.per.snapshot INT 500 R
share.coordinator.state.topic.compression.codec INT 0 R
share.coordinator.state.topic.min.isr SHORT 2 R
share.coordinator.state.topic.num.partitions INT 50 R
share.coordinator.state.topic.prune.interval.ms INT 300000 RI
share.coordinator.state.topic.replication.factor SHORT 3 R
share.coordinator.state.topic.segment.bytes INT 104857600 R
share.coordinator.threads INT 1 R
share.coordinator.write.timeout.ms INT 5000 R
share.fetch.purgatory.purge.interval.requests INT 1000 R
socket.connection.setup.timeout.max.ms LONG 30000 R
socket.connection.setup.timeout.ms LONG 10000 R
socket.receive.buffer.bytes INT 102400 R
socket.send.buffer.bytes INT 102400 R
ssl.allow.dn.changes BOOLEAN false R
ssl.allow.san.changes BOOLEAN false R
ssl.endpoint.identification.algorithm STRING https P
ssl.engine.factory.class CLASS ~ P
ssl.keymanager.algorithm STRING SunX509 P
ssl.protocol STRING TLSv1.3 P
ssl.provider STRING ~ P
ssl.secure.random.implementation STRING ~ P
ssl.trustmanager.algorithm STRING PKIX P
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 R
transaction.partition.verification.enable BOOLEAN true C
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 R
transaction.state.log.load.buffer.size INT 5242880 R
transaction.state.log.min.isr INT 2 R
transaction.state.log.num.partitions INT 50 R
transaction.state.log.replication.factor SHORT 3 R
transaction.state.log.segment.bytes INT 104857600 R
transaction.two.phase.commit.enable BOOLEAN false R
transactional.id.expiration.ms INT 604800000 R
unclean.leader.election.interval.ms LONG 300000 RI
unstable.api.versions.enable BOOLEAN false RI
unstable.feature.versions.enable BOOLEAN false RI
"""  # noqa: E501
