"""The broker options that are honoured here, typed. `known.py` lists the rest of what a server.properties may say."""

from __future__ import annotations

from ottla.config import broker_checks as checks
from ottla.config.option import (
    OptionKind,
    OptionSet,
    OptionStatus,
    Scope,
    at_least,
    between,
    option,
    positive,
)
from ottla.config.topic import DAY_MS, LONG_MAX, MiB

INT_MAX = (1 << 31) - 1
_HOURS_MOST = 1_000_000
"""114 years."""
PLAIN_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"


class BrokerConfig(OptionSet):
    """The options of one broker; defaults for topics are in its `TopicConfig`s already."""

    # fmt: off
    # Who and where
    node_id: int = option(
        "node.id", 1, OptionKind.INT, check=at_least(0),
        doc="This broker's number; no two brokers of a cluster share one.",
    )
    broker_rack: str | None = option(
        "broker.rack", None, OptionKind.STRING,
        doc="The rack or zone of this broker: replicas are spread over racks.",
    )
    broker_host: str | None = option(
        "broker.host", None, OptionKind.STRING,
        doc="ottla's own: the machine of this broker, by default its host name; replicas are spread over machines.",
    )
    listeners: tuple[str, ...] = option(
        "listeners", ("PLAINTEXT://127.0.0.1:9092",), OptionKind.LIST, check=checks.listener_addresses,
        doc="Where to listen, as NAME://HOST:PORT; port 0 takes a free one.",
    )
    advertised_listeners: tuple[str, ...] = option(
        "advertised.listeners", (), OptionKind.LIST, check=checks.listener_addresses,
        doc="The addresses clients are told, by listener name; empty: the address on which the client came.",
    )
    listener_security_protocol_map: str = option(
        "listener.security.protocol.map", PLAIN_MAP, OptionKind.STRING,
        doc="The security protocol of each listener name, as NAME:PROTOCOL,...",
    )
    inter_broker_listener_name: str | None = option(
        "inter.broker.listener.name", None, OptionKind.STRING,
        doc="The listener on which brokers speak to one another; by default the one called PLAINTEXT, or the first.",
    )
    log_dir: tuple[str, ...] = option(
        "log.dir", ("ottla-data",), OptionKind.LIST,
        doc="Where data lives, if log.dirs is not set.",
    )
    log_dirs: tuple[str, ...] = option(
        "log.dirs", (), OptionKind.LIST,
        doc="Where data lives: one directory or several, each on a disk of its own, of which one may fail alone.",
    )
    # Topics
    auto_create_topics_enable: bool = option(
        "auto.create.topics.enable", True, OptionKind.BOOLEAN,
        doc="Create a topic when a client that allows it asks for its metadata.",
    )
    delete_topic_enable: bool = option(
        "delete.topic.enable", True, OptionKind.BOOLEAN,
        doc="Whether topics may be deleted.",
    )
    num_partitions: int = option(
        "num.partitions", 1, OptionKind.INT, check=at_least(1),
        doc="Partitions of a topic that was created without a number.",
    )
    default_replication_factor: int = option(
        "default.replication.factor", 1, OptionKind.INT, check=at_least(1),
        doc="Replicas of a topic that was created without a number.",
    )
    # Connections and requests
    socket_request_max_bytes: int = option(
        "socket.request.max.bytes", 100 * MiB, OptionKind.INT, check=at_least(1),
        doc="The largest request accepted; a larger one closes its connection.",
    )
    socket_listen_backlog_size: int = option(
        "socket.listen.backlog.size", 50, OptionKind.INT, check=at_least(1),
        doc="Connections the system may hold before they are accepted.",
    )
    connections_max_idle_ms: int = option(
        "connections.max.idle.ms", 600_000, OptionKind.LONG,
        doc="Close a connection on which nothing was asked for this long; below 0: never.",
    )
    max_connections: int = option(
        "max.connections", INT_MAX, OptionKind.INT, check=at_least(0), scope=Scope.CLUSTER_WIDE,
        doc="Connections this broker accepts at a time; listener.name.NAME.max.connections is that of one listener.",
    )
    max_connections_per_ip: int = option(
        "max.connections.per.ip", INT_MAX, OptionKind.INT, check=at_least(0), scope=Scope.CLUSTER_WIDE,
        doc="Connections this broker accepts from one address at a time.",
    )
    max_connections_per_ip_overrides: str = option(
        "max.connections.per.ip.overrides", "", OptionKind.STRING, check=checks.ip_overrides, scope=Scope.CLUSTER_WIDE,
        doc="The limits of single addresses in place of max.connections.per.ip, as IP:COUNT,...",
    )
    max_connection_creation_rate: int = option(
        "max.connection.creation.rate", INT_MAX, OptionKind.INT, check=at_least(0), scope=Scope.CLUSTER_WIDE,
        doc="Connections a second above which this broker accepts later, by a second at the most.",
    )
    telemetry_max_bytes: int = option(
        "telemetry.max.bytes", 1 * MiB, OptionKind.INT, check=between(1, 3 * MiB),
        doc="The most bytes of metrics that a client may push, as they come and decompressed.",
    )
    fetch_max_bytes: int = option(
        "fetch.max.bytes", 55 * MiB, OptionKind.INT, check=at_least(1024),
        doc="The most bytes one fetch answer carries.",
    )
    max_incremental_fetch_session_cache_slots: int = option(
        "max.incremental.fetch.session.cache.slots", 1000, OptionKind.INT, check=at_least(0),
        doc="Fetch sessions kept at a time.",
    )
    max_request_partition_size_limit: int = option(
        "max.request.partition.size.limit", 2000, OptionKind.INT, check=at_least(1),
        doc="The most partitions one DescribeTopicPartitions answer carries.",
    )
    # Logs
    log_retention_check_interval_ms: int = option(
        "log.retention.check.interval.ms", 300_000, OptionKind.LONG, check=at_least(1),
        doc="How often segments are looked at for retention.",
    )
    log_stray_retention_ms: int = option(
        "log.stray.retention.ms", 7 * DAY_MS, OptionKind.LONG, check=at_least(-1),
        doc="ottla's own: how long what a start has set aside (`ottla log strays`) is kept; -1: for ever.",
    )
    ottla_clock_accepted_ms: int = option(
        "ottla.clock.accepted.ms", -1, OptionKind.LONG, check=at_least(-1), scope=Scope.CLUSTER_WIDE,
        doc="ottla's own: the time, in ms since 1970, that it is by an administrator's word. `ottla clock accept` sets "
            "it, for brokers whose clocks are in doubt; -1: no word.",
    )
    log_flush_offset_checkpoint_interval_ms: int = option(
        "log.flush.offset.checkpoint.interval.ms", 60_000, OptionKind.INT, check=at_least(0),
        doc="How often recovery points are written down.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = option(
        "replica.high.watermark.checkpoint.interval.ms", 5000, OptionKind.LONG,
        doc="How often high watermarks are written down.",
    )
    log_cleaner_enable: bool = option(
        "log.cleaner.enable", True, OptionKind.BOOLEAN,
        doc="Whether compaction runs.",
    )
    log_cleaner_backoff_ms: int = option(
        "log.cleaner.backoff.ms", 15_000, OptionKind.LONG, check=at_least(0), scope=Scope.CLUSTER_WIDE,
        doc="How long compaction rests when nothing is dirty enough.",
    )
    log_cleaner_io_max_bytes_per_second: float = option(
        "log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308, OptionKind.DOUBLE, check=positive,
        scope=Scope.CLUSTER_WIDE,
        doc="How fast compaction may read and write.",
    )
    scrub_interval_hours: float = option(
        "ottla.scrub.interval.hours", 168.0, OptionKind.DOUBLE, check=between(0, _HOURS_MOST), scope=Scope.CLUSTER_WIDE,
        doc="ottla's own: how long after the last pass the closed segments are checked for damage again; 0: never.",
    )
    scrub_max_bytes_per_second: int = option(
        "ottla.scrub.max.bytes.per.second", 8 * MiB, OptionKind.LONG, check=at_least(1), scope=Scope.CLUSTER_WIDE,
        doc="ottla's own: how fast segments are checked for damage, and how fast damaged ones are fetched from a peer.",
    )
    producer_id_expiration_ms: int = option(
        "producer.id.expiration.ms", DAY_MS, OptionKind.INT, check=at_least(1), scope=Scope.CLUSTER_WIDE,
        doc="Forget the sequences of a producer that wrote nothing for this long.",
    )
    # Groups and their offsets
    group_initial_rebalance_delay_ms: int = option(
        "group.initial.rebalance.delay.ms", 3000, OptionKind.INT,
        doc="How long the first join of an empty group waits for others.",
    )
    group_max_session_timeout_ms: int = option(
        "group.max.session.timeout.ms", 1_800_000, OptionKind.INT,
        doc="The longest session a member may ask for.",
    )
    group_min_session_timeout_ms: int = option(
        "group.min.session.timeout.ms", 6000, OptionKind.INT,
        doc="The shortest session a member may ask for.",
    )
    group_max_size: int = option(
        "group.max.size", INT_MAX, OptionKind.INT, check=at_least(1),
        doc="The most members of one group.",
    )
    group_consumer_assignment_interval_ms: int = option(
        "group.consumer.assignment.interval.ms", 1000, OptionKind.INT, check=at_least(0), scope=Scope.CLUSTER_WIDE,
        doc="How long a group of the consumer protocol waits at least between two new targets.",
    )
    group_consumer_assignors: tuple[str, ...] = option(
        "group.consumer.assignors", ("uniform", "range"), OptionKind.LIST, check=checks.assignors,
        doc="The assignors that members may name; the first is for groups in which nobody names one.",
    )
    group_consumer_heartbeat_interval_ms: int = option(
        "group.consumer.heartbeat.interval.ms", 5000, OptionKind.INT, check=at_least(1),
        doc="How often members of the consumer protocol are told to send a heartbeat.",
    )
    group_consumer_max_assignment_interval_ms: int = option(
        "group.consumer.max.assignment.interval.ms", 15_000, OptionKind.INT, check=at_least(0),
        doc="The longest interval between targets that a group may have set for itself.",
    )
    group_consumer_max_heartbeat_interval_ms: int = option(
        "group.consumer.max.heartbeat.interval.ms", 15_000, OptionKind.INT, check=at_least(1),
        doc="The longest heartbeat interval that a group may have set for itself.",
    )
    group_consumer_max_session_timeout_ms: int = option(
        "group.consumer.max.session.timeout.ms", 60_000, OptionKind.INT, check=at_least(1),
        doc="The longest session that a group may have set for itself.",
    )
    group_consumer_max_size: int = option(
        "group.consumer.max.size", INT_MAX, OptionKind.INT, check=at_least(1),
        doc="The most members of one group of the consumer protocol.",
    )
    group_consumer_migration_policy: str = option(
        "group.consumer.migration.policy", "bidirectional", OptionKind.STRING, check=checks.migration_policy,
        doc="Whether a group with members may go over to the consumer protocol (upgrade), back to the classic one "
        "(downgrade), both or neither.",
    )
    group_consumer_min_assignment_interval_ms: int = option(
        "group.consumer.min.assignment.interval.ms", 0, OptionKind.INT, check=at_least(0),
        doc="The shortest interval between targets that a group may have set for itself.",
    )
    group_consumer_min_heartbeat_interval_ms: int = option(
        "group.consumer.min.heartbeat.interval.ms", 5000, OptionKind.INT, check=at_least(1),
        doc="The shortest heartbeat interval that a group may have set for itself.",
    )
    group_consumer_min_session_timeout_ms: int = option(
        "group.consumer.min.session.timeout.ms", 45_000, OptionKind.INT, check=at_least(1),
        doc="The shortest session that a group may have set for itself.",
    )
    group_consumer_regex_refresh_interval_ms: int = option(
        "group.consumer.regex.refresh.interval.ms", 600_000, OptionKind.INT, check=at_least(10_000), internal=True,
        doc="How often regular expressions are matched again where no topic was created or deleted.",
    )
    group_consumer_session_timeout_ms: int = option(
        "group.consumer.session.timeout.ms", 45_000, OptionKind.INT, check=at_least(1),
        doc="Remove a member of the consumer protocol that was not heard of for this long.",
    )
    offset_metadata_max_bytes: int = option(
        "offset.metadata.max.bytes", 4096, OptionKind.INT,
        doc="The longest text that may be committed with an offset.",
    )
    offsets_commit_timeout_ms: int = option(
        "offsets.commit.timeout.ms", 5000, OptionKind.INT, check=at_least(1),
        doc="How long a commit waits for its replicas.",
    )
    offsets_retention_check_interval_ms: int = option(
        "offsets.retention.check.interval.ms", 600_000, OptionKind.LONG, check=at_least(1),
        doc="How often expired offsets are looked for.",
    )
    offsets_retention_minutes: int = option(
        "offsets.retention.minutes", 10_080, OptionKind.INT, check=at_least(1),
        doc="Forget the offsets of a group that has been empty for this long.",
    )
    offsets_topic_num_partitions: int = option(
        "offsets.topic.num.partitions", 50, OptionKind.INT, check=at_least(1),
        doc="Partitions of __consumer_offsets when it is created.",
    )
    offsets_topic_replication_factor: int = option(
        "offsets.topic.replication.factor", 3, OptionKind.SHORT, check=at_least(1),
        doc="Replicas of __consumer_offsets, as far as there are brokers.",
    )
    offsets_topic_segment_bytes: int = option(
        "offsets.topic.segment.bytes", 16 * MiB, OptionKind.INT, check=at_least(1),
        doc="Segment size of __consumer_offsets: small, so that a coordinator loads quickly. "
        "Kafka's default is 100 MiB.",
    )
    # The cluster
    broker_session_timeout_ms: int = option(
        "broker.session.timeout.ms", 6000, OptionKind.INT, check=at_least(100),
        doc="A broker that reached the coordination store for the last time this long ago is fenced. "
        "Kafka's default is 9000.",
    )
    zookeeper_digest: str | None = option(
        "zookeeper.digest", None, OptionKind.PASSWORD, check=checks.user_and_password,
        doc="ottla's own: USER:PASSWORD by which the brokers keep their nodes in ZooKeeper to themselves.",
    )
    first_users: str | None = option(
        "ottla.first.users", None, OptionKind.STRING,
        doc="ottla's own: a file of `ottla secure init` with users for a cluster where nobody has a password.",
    )
    insecure: bool = option(
        "ottla.insecure", False, OptionKind.BOOLEAN,
        doc="ottla's own: start even if a listener that other machines reach asks nobody who they are.",
    )
    http_host: str = option(
        "ottla.http.host", "127.0.0.1", OptionKind.STRING,
        doc="ottla's own: where /metrics and /health listen, on the port of --http-port.",
    )
    http_tls: bool = option(
        "ottla.http.tls", False, OptionKind.BOOLEAN,
        doc="ottla's own: serve /metrics and /health by HTTPS, with the ssl.* options of the broker.",
    )
    http_users: str | None = option(
        "ottla.http.users", None, OptionKind.STRING,
        doc="ottla's own: a file of lines NAME=PASSWORD, one of which /metrics and /health ask for.",
    )
    broker_heartbeat_interval_ms: int = option(
        "broker.heartbeat.interval.ms", 2000, OptionKind.INT, check=at_least(10), status=OptionStatus.NO_EFFECT,
        doc="A broker renews its lease six times in each broker.session.timeout.ms.",
    )
    replica_lag_time_max_ms: int = option(
        "replica.lag.time.max.ms", 30_000, OptionKind.LONG, check=at_least(1),
        doc="A follower that has not caught up for this long leaves the in-sync set.",
    )
    replica_fetch_max_bytes: int = option(
        "replica.fetch.max.bytes", MiB, OptionKind.INT, check=at_least(0),
        doc="The most bytes of one partition that a follower asks for; a larger batch comes all the same.",
    )
    replica_fetch_response_max_bytes: int = option(
        "replica.fetch.response.max.bytes", 10 * MiB, OptionKind.INT, check=at_least(0),
        doc="The most bytes that a follower asks for at a time; a larger batch comes all the same.",
    )
    replica_fetch_min_bytes: int = option(
        "replica.fetch.min.bytes", 1, OptionKind.INT,
        doc="A follower's fetch waits at the leader until there are so many bytes.",
    )
    replica_fetch_wait_max_ms: int = option(
        "replica.fetch.wait.max.ms", 500, OptionKind.INT,
        doc="A follower's fetch waits at the leader at most this long.",
    )
    replica_fetch_backoff_ms: int = option(
        "replica.fetch.backoff.ms", 200, OptionKind.INT, check=at_least(0),
        doc="After an answer that is no use, a follower asks again this late at most, the first time sooner. "
        "Kafka's default is 1000.",
    )
    replica_socket_timeout_ms: int = option(
        "replica.socket.timeout.ms", 30_000, OptionKind.INT,
        doc="A leader that has not answered a fetch for this long is taken to be lost.",
    )
    replica_selector_class: str | None = option(
        "replica.selector.class", None, OptionKind.STRING, check=checks.replica_selector,
        doc="Where consumers that name their rack (client.rack) are sent to read. "
        f"{checks.RACK_AWARE}: to an in-sync replica in that rack. Unset: always to the leader.",
    )
    leader_replication_throttled_rate: int = option(
        "leader.replication.throttled.rate", LONG_MAX, OptionKind.LONG, check=at_least(0), scope=Scope.CLUSTER_WIDE,
        internal=True,
        doc="Bytes per second at which this broker serves replicas that are throttled "
        "(leader.replication.throttled.replicas of their topics).",
    )
    follower_replication_throttled_rate: int = option(
        "follower.replication.throttled.rate", LONG_MAX, OptionKind.LONG, check=at_least(0), scope=Scope.CLUSTER_WIDE,
        internal=True,
        doc="Bytes per second at which this broker fetches replicas that are throttled "
        "(follower.replication.throttled.replicas of their topics).",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = option(
        "replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, OptionKind.LONG, check=at_least(0),
        scope=Scope.CLUSTER_WIDE, internal=True,
        doc="Bytes per second at which replicas are copied from one log directory of this broker to another.",
    )
    controlled_shutdown_enable: bool = option(
        "controlled.shutdown.enable", True, OptionKind.BOOLEAN,
        doc="Hand leaderships over to other brokers before stopping.",
    )
    auto_leader_rebalance_enable: bool = option(
        "auto.leader.rebalance.enable", True, OptionKind.BOOLEAN,
        doc="Give partitions back to their preferred leaders now and then.",
    )
    leader_imbalance_check_interval_seconds: int = option(
        "leader.imbalance.check.interval.seconds", 300, OptionKind.LONG, check=at_least(1),
        doc="How often it is looked who leads what others are preferred for.",
    )
    # Transactions
    add_partitions_to_txn_retry_backoff_ms: int = option(
        "add.partitions.to.txn.retry.backoff.ms", 20, OptionKind.INT, check=at_least(1),
        doc="How long partitions that join a transaction wait at the coordinator for the end of the one before, "
        "and the first batch of a transaction before its coordinator is asked again.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = option(
        "add.partitions.to.txn.retry.backoff.max.ms", 100, OptionKind.INT, check=at_least(0),
        doc="How long the coordinator is asked again while the transaction before still ends.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = option(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, OptionKind.INT, check=at_least(1),
        doc="How often transactions are looked for that are open for longer than their timeout.",
    )
    transaction_max_timeout_ms: int = option(
        "transaction.max.timeout.ms", 900_000, OptionKind.INT, check=at_least(1),
        doc="The longest timeout a transactional producer may ask for.",
    )
    transaction_partition_verification_enable: bool = option(
        "transaction.partition.verification.enable", True, OptionKind.BOOLEAN, scope=Scope.CLUSTER_WIDE,
        doc="Ask the coordinator before the first batch of a transaction is written, for clients that add partitions "
        "themselves; others are always asked for.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = option(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, OptionKind.INT, check=at_least(1),
        doc="How often transactional ids are looked for that nobody uses.",
    )
    transaction_state_log_min_isr: int = option(
        "transaction.state.log.min.isr", 2, OptionKind.INT, check=at_least(1),
        doc="min.insync.replicas of __transaction_state when it is created, as far as there are replicas.",
    )
    transaction_state_log_num_partitions: int = option(
        "transaction.state.log.num.partitions", 50, OptionKind.INT, check=at_least(1),
        doc="Partitions of __transaction_state when it is created.",
    )
    transaction_state_log_replication_factor: int = option(
        "transaction.state.log.replication.factor", 3, OptionKind.SHORT, check=at_least(1),
        doc="Replicas of __transaction_state, as far as there are brokers.",
    )
    transaction_state_log_segment_bytes: int = option(
        "transaction.state.log.segment.bytes", 16 * MiB, OptionKind.INT, check=at_least(1),
        doc="Segment size of __transaction_state: small, so that a coordinator loads quickly. "
        "Apache Kafka's default is 100 MiB.",
    )
    transactional_id_expiration_ms: int = option(
        "transactional.id.expiration.ms", 7 * DAY_MS, OptionKind.INT, check=at_least(1),
        doc="Forget a transactional id that nobody has used for this long.",
    )
    authorizer_class_name: str = option(
        "authorizer.class.name", "", OptionKind.STRING, check=checks.authorizer,
        doc=f"{checks.STANDARD_AUTHORIZER} limits clients by ACLs, which are kept in the metadata; empty: all may do "
        "everything.",
    )
    super_users: str = option(
        "super.users", "", OptionKind.STRING, check=checks.principals,
        doc="Users that may do everything, as User:NAME with semicolons between.",
    )
    allow_everyone_if_no_acl_found: bool = option(
        "allow.everyone.if.no.acl.found", False, OptionKind.BOOLEAN,
        doc="Open every resource that no ACL is about.",
    )
    delegation_token_secret_key: str | None = option(
        "delegation.token.secret.key", None, OptionKind.PASSWORD,
        doc="The key of delegation tokens, the same on all brokers; without one there are no tokens.",
    )
    delegation_token_max_lifetime_ms: int = option(
        "delegation.token.max.lifetime.ms", 7 * DAY_MS, OptionKind.LONG, check=at_least(1),
        doc="The time after which a delegation token cannot be renewed.",
    )
    delegation_token_expiry_time_ms: int = option(
        "delegation.token.expiry.time.ms", DAY_MS, OptionKind.LONG, check=at_least(1),
        doc="The time for which a new delegation token is good, and a renewed one.",
    )
    audit_log: str | None = option(
        "ottla.audit.log", None, OptionKind.STRING,
        doc="ottla's own: the file for logins, refusals and changes; `ottla audit-log verify` checks it.",
    )
    # An option that would change who may do what is refused rather than ignored.
    config_providers: tuple[str, ...] = option(
        "config.providers", (), OptionKind.LIST, status=OptionStatus.REFUSED,
        doc="Values are taken as they stand; ${...} references are not filled in.",
    )
    create_topic_policy_class_name: str | None = option(
        "create.topic.policy.class.name", None, OptionKind.CLASS, status=OptionStatus.REFUSED,
        doc="There are no policy plug-ins: a Java class cannot be loaded.",
    )
    alter_config_policy_class_name: str | None = option(
        "alter.config.policy.class.name", None, OptionKind.CLASS, status=OptionStatus.REFUSED,
        doc="There are no policy plug-ins: a Java class cannot be loaded.",
    )
    remote_log_storage_system_enable: bool = option(
        "remote.log.storage.system.enable", False, OptionKind.BOOLEAN, status=OptionStatus.REFUSED,
        doc="Tiered storage is not there.",
    )
    # fmt: on

    @property
    def data_directories(self) -> tuple[str, ...]:
        """`log.dirs`, or `log.dir` where it is not set."""
        return self.log_dirs or self.log_dir
