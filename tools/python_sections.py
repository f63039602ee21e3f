"""The public names of the Python API, in the order of docs/reference/python.md."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Form(Enum):
    """The look of a section."""

    ENTRIES = "a heading for each name"
    NAMES = "a table of names and their meanings"
    PARTS = "a table of message parts and their fields"
    CODES = "a table of error codes"


@dataclass(frozen=True)
class Section:
    """Names that belong together, with spaces between. One of another module is written `module:Name`."""

    module: str
    intro: str
    names: str
    form: Form = Form.ENTRIES
    prefix: str = ""
    """Stands before the names in headings, where another section has the same names."""


INTRO = """\
Names that end in `_ms` are milliseconds, those that end in `_bytes` or `_size` bytes; a `timeout` without a unit is in
seconds, and None waits without end. Timestamps of records are milliseconds since 1970. The examples of one class belong
together: a later one uses what an earlier one has imported."""

PACKAGES = ("ottla.client", "ottla.client.aio", "ottla.testing", "ottla.testing.plugin", "ottla.spark", "ottla.lake")
"""Packages whose names are public: the page has every one of them."""

SECTIONS = (
    Section(
        "ottla.client",
        "The blocking client; [the guide](../guide/client.md) introduces it, and "
        "[Transactions](../guide/transactions.md) tells the whole story of a transactional producer.",
        "Producer ottla.client.blocking.producer:Delivery Delivered ProducerSettings AuditTrail Consumer "
        "ConsumerSettings FetchSettings TopicTable IsolationLevel CommittedOffset Admin NewTopic Cluster "
        "TopicPartition ClientSettings",
    ),
    Section(
        "ottla.client.aio",
        "The same for asyncio; settings, values and errors are those of `ottla.client`.",
        "Producer Consumer Admin Cluster",
        prefix="aio.",
    ),
    Section(
        "ottla.testing",
        "A broker inside the test process, and the fixtures of the pytest plugin, which pytest finds by itself; "
        "[the guide](../guide/testing.md) introduces them.",
        "TestBroker ottla.testing.plugin:ottla_broker ottla.testing.plugin:ottla_topic "
        "ottla.testing.plugin:kafka ottla.testing.plugin:kafka_topic",
    ),
    Section(
        "ottla.logging",
        "A handler of Python's `logging`; [the guide](../guide/connect-feeds.md) introduces it.",
        "KafkaHandler",
    ),
    Section(
        "ottla.spark",
        'Beside `format("ottla")`, whose options [have a page of their own](spark.md); '
        "[the guide](../guide/spark.md) introduces it.",
        "session write_batch ottla.spark.session:register_source",
    ),
    Section(
        "ottla.lake",
        "Topics into files and tables; [the guide](../guide/lake.md) introduces it, and the options of `load` [have a "
        "page of their own](lake.md). Needs `pip install 'ottla[lake]'`.",
        "load ottla.lake.rounds.loader:Loaded rows schema table LoadOptions LakeRefused TaskFailed",
    ),
    Section(
        "ottla.client.errors",
        "`ottla.client` has the first two as well.",
        "ClientError ottla.kernel.errors:ApiError Refused BrokerUnreachable ConnectionLost RequestTimedOut "
        "MetadataMissing UnsupportedVersion ProtocolViolation InvalidTransactionState TransactionMustAbort "
        "TransactionAborted TransactionFailed ProducerFenced",
        Form.NAMES,
    ),
    Section(
        "ottla.client.model",
        "Values that calls take and return.",
        "ConsumedRecord GroupMetadata OffsetAtTime Broker TopicView PartitionView Destination Fetched "
        "AbortedRange Produced ProducerIdentity EARLIEST LATEST MAX_TIMESTAMP Header "
        "ottla.client.consume.group:Listener",
    ),
    Section(
        "ottla.client.admin",
        "Values that `Admin` takes and returns.",
        "ottla.client.admin.admin:Resource ottla.client.admin.admin:ResourceType "
        "ottla.client.admin.admin:ConfigOperation ottla.client.admin.admin:ConfigSource "
        "ottla.client.admin.replicas:Reassignment ottla.client.admin.replicas:Election "
        "ottla.client.admin.features:DescribedFeatures ottla.client.admin.features:FeatureLevels "
        "ottla.client.admin.features:UpgradeType ottla.client.admin.transactions:ListedTransaction "
        "ottla.client.admin.transactions:DescribedTransaction ottla.client.admin.transactions:OpenTransaction "
        "ottla.client.admin.troubles:ReplicaTrouble ottla.client.admin.loads:Told",
    ),
    Section("ottla.client.produce.record", "For `Producer.produce`.", "Content Headers", Form.NAMES),
    Section(
        "ottla.client.produce.partitioners",
        "For `partitioner` in `ProducerSettings`.",
        "Partitioner murmur2_partitioner murmur2_random_partitioner consistent_partitioner "
        "consistent_random_partitioner random_partitioner",
        Form.NAMES,
    ),
    Section(
        "ottla.client.consume.assignors",
        "For `assignors` in `ConsumerSettings`.",
        "Assignor RANGE ROUNDROBIN STICKY COOPERATIVE_STICKY",
        Form.NAMES,
    ),
    Section("ottla.records.compression", "For `compression` in `ProducerSettings`.", "Codec"),
    Section(
        "ottla.client.security",
        "For `security`, which takes options by Kafka's names too: [TLS and passwords](../guide/security.md).",
        "Security security_of",
    ),
    Section("ottla.tls.settings", "The options of TLS, in a `Security`.", "TlsSettings"),
    Section(
        "ottla.client.produce.audit_trail",
        "Beside `AuditTrail`; [Auditing a lake](../guide/lake-audit.md) tells what it is for.",
        "AuditMessage Produces Delivers",
    ),
    Section(
        "ottla.messages",
        "Parts of Kafka's messages that `Admin` returns as they came, with Kafka's names; a field that the answer's "
        "version does not have holds its default.",
        "ottla.messages.create_topics:CreatableTopicResult "
        "ottla.messages.describe_topic_partitions:DescribeTopicPartitionsResponseTopic "
        "ottla.messages.describe_cluster:DescribeClusterResponse "
        "ottla.messages.describe_configs:DescribeConfigsResourceResult "
        "ottla.messages.describe_log_dirs:DescribeLogDirsResult ottla.messages.list_groups:ListedGroup "
        "ottla.messages.describe_groups:DescribedGroup ottla.messages.consumer_group_describe:DescribedGroup "
        "ottla.messages.describe_producers:ProducerState",
        Form.PARTS,
    ),
    Section("ottla.lake.notes.plans", "Parts of a `Loaded`.", "RangeCount LakeFile Commit", Form.PARTS),
    Section("ottla.kernel.errors", "`code` of an `ApiError` is one of these.", "ErrorCode", Form.CODES),
)
