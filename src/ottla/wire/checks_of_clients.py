"""The rights that producing, consuming, groups and transactions take: one row a check.

`checks.py` says what a row means.
"""

from __future__ import annotations

from ottla.kernel.acls import OPERATIONS_OF, Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.wire.checks import Check, CheckScope, Each, Whole

CLUSTER = ResourceKind.CLUSTER
GROUP = ResourceKind.GROUP
TOPIC = ResourceKind.TOPIC
TRANSACTION = ResourceKind.TRANSACTIONAL_ID
READ = Operation.READ
WRITE = Operation.WRITE
CREATE = Operation.CREATE
DELETE = Operation.DELETE
ALTER = Operation.ALTER
DESCRIBE = Operation.DESCRIBE
CLUSTER_ACTION = Operation.CLUSTER_ACTION
IDEMPOTENT_WRITE = Operation.IDEMPOTENT_WRITE
TWO_PHASE_COMMIT = Operation.TWO_PHASE_COMMIT
TOPIC_OPERATIONS = OPERATIONS_OF[TOPIC]
REQUEST = CheckScope.REQUEST
ITEM = CheckScope.ITEM
FILTER = CheckScope.FILTER
FIELD = CheckScope.FIELD
NONE = CheckScope.NONE
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_SASL = ErrorCode.ILLEGAL_SASL_STATE
# fmt: off
OF_CLIENTS: dict[int, tuple[Check, ...]] = {
    0: (  # Produce
        Check("3-13", TRANSACTION, "transactional_id of the request", WRITE, REQUEST, NO_TRANSACTION,
              "first, only if a batch in the request is transactional (attribute bit, not the id field); a "
              "transactional batch with a null id fails too",
              "53 in every partition (before v8 and after alike); acks=0: connection closed"),
        Check("3-12", TOPIC, "each topic by name", WRITE, ITEM, NO_TOPIC,
              "once per topic, before existence is looked at",
              "29 in each partition of the topic, base offset -1; the others are appended; acks=0: connection "
              "closed after the rest is appended"),
        Check("13", TOPIC, "name behind the topic id", WRITE, ITEM, NO_TOPIC,
              "after the id is resolved: an unknown id gets 100 without a check",
              "29 in each partition, id echoed"),
    ),
    1: (  # Fetch
        Check("4-18", CLUSTER, "kafka-cluster", CLUSTER_ACTION, REQUEST, NO_TOPIC,
              "if replica_id >= 0",
              "29 in every partition of the session or request (not 31)"),
        Check("4-12", TOPIC, "each topic by name", READ, ITEM, NO_TOPIC,
              "once per topic at every fetch, also for partitions only cached in the session; before existence",
              "29 in the partition, high watermark -1; answered at once if nothing else is asked"),
        Check("13-18", TOPIC, "name behind the topic id", READ, ITEM, NO_TOPIC,
              "an unknown id gets 100 without a check",
              "29 in the partition, id echoed, no name"),
    ),
    2: (  # ListOffsets
        Check("1-11", TOPIC, "each topic", DESCRIBE, ITEM, NO_TOPIC,
              "before existence and before duplicates",
              "29 in each partition, offset -1, timestamp -1",
              Each("topics", "name", "topics")),
    ),
    3: (  # Metadata
        Check("0-13", TOPIC, "each topic of the cluster", DESCRIBE, FILTER, None,
              "all topics asked for (v0: empty list; v1+: null)",
              "topic is left out, denial not logged"),
        Check("0-13", TOPIC, "each topic by name", DESCRIBE, ITEM, NO_TOPIC,
              "named topics, before existence",
              "29 for the topic, id zero, no partitions, is_internal false"),
        Check("12-13", TOPIC, "name behind the topic id", DESCRIBE, ITEM, NO_TOPIC,
              "topics by id; an unknown id gets 100 without a check",
              "29, name null, the id echoed"),
        Check("0-13", CLUSTER, "kafka-cluster", CREATE, REQUEST, None,
              "a named topic that does not exist, auto-creation on and allowed (v0-3 always); first the cluster, "
              "unlogged, then the topic",
              "see the next row"),
        Check("0-13", TOPIC, "the topic to be created", CREATE, ITEM, NO_TOPIC,
              "only if CREATE on the cluster is missing",
              "29 for the topic, id zero; nothing is created"),
        Check("8-10", CLUSTER, "kafka-cluster", DESCRIBE, FIELD, None,
              "include_cluster_authorized_operations",
              "cluster_authorized_operations = 0 (not asked: -2147483648)"),
        Check("8-13", TOPIC, "each answered topic", TOPIC_OPERATIONS, FIELD, None,
              "include_topic_authorized_operations; neither allow nor denial is logged",
              "bits of what is allowed; topics refused above keep -2147483648"),
    ),
    8: (  # OffsetCommit
        Check("2-10", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "first",
              "30 in every partition",
              Whole("group_id")),
        Check("2-9", TOPIC, "each topic", READ, ITEM, NO_TOPIC,
              "before existence",
              "29 in each partition; the others are committed",
              Each("topics", "name", "topics")),
        Check("10", TOPIC, "name behind the topic id", READ, ITEM, NO_TOPIC,
              "an unknown id gets 100 without a check",
              "29 in each partition, id echoed",
              Each("topics", "topic_id", "topics")),
    ),
    9: (  # OffsetFetch
        Check("1", GROUP, "group_id", DESCRIBE, REQUEST, NO_GROUP,
              "first",
              "30 in every named partition (v1 has no top level)"),
        Check("2-7", GROUP, "group_id", DESCRIBE, REQUEST, NO_GROUP,
              "first",
              "30 at top level, no topics"),
        Check("8-10", GROUP, "each group_id", DESCRIBE, ITEM, NO_GROUP,
              "each group by itself",
              "30 for the group, no topics"),
        Check("1-10", TOPIC, "each named topic", DESCRIBE, ITEM, NO_TOPIC,
              "v10: name behind the id, an unknown id gets 100",
              "29 in each partition, offset -1"),
        Check("2-10", TOPIC, "each topic with a committed offset", DESCRIBE, FILTER, None,
              "all topics asked for (null)",
              "topic is left out"),
    ),
    10: (  # FindCoordinator
        Check("0-6", GROUP, "key", DESCRIBE, ITEM, NO_GROUP,
              "key_type 0",
              "30, node -1, host '', port -1; v0-3 for the request, v4+ for the key"),
        Check("1-6", TRANSACTION, "key", DESCRIBE, ITEM, NO_TRANSACTION,
              "key_type 1",
              "53 likewise"),
        Check("6", CLUSTER, "kafka-cluster", CLUSTER_ACTION, REQUEST, NO_CLUSTER,
              "key_type 2 (share)",
              "31 for every key"),
    ),
    11: (  # JoinGroup
        Check("0-9", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "first",
              "30",
              Whole("group_id")),
    ),
    12: (  # Heartbeat
        Check("0-4", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "first",
              "30",
              Whole("group_id")),
    ),
    13: (  # LeaveGroup
        Check("0-5", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "first",
              "30 at top level, no members",
              Whole("group_id")),
    ),
    14: (  # SyncGroup
        Check("0-5", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "after v5's check that protocol type and name are there (23)",
              "30"),
    ),
    16: (  # ListGroups
        Check("0-5", CLUSTER, "kafka-cluster", DESCRIBE, FILTER, None,
              "first, unlogged",
              "allowed: every group; denied: see the next row"),
        Check("0-5", GROUP, "each group", DESCRIBE, FILTER, None,
              "only if DESCRIBE on the cluster is missing, unlogged",
              "group is left out, no error"),
    ),
    17: (  # SaslHandshake
        Check("0-1", None, "-", None, NONE, NO_SASL,
              "after authentication is complete and no re-authentication may begin",
              "34 ILLEGAL_SASL_STATE, no mechanisms"),
    ),
    18: (  # ApiVersions
        Check("0-4", None, "-", None, NONE, None,
              "never; served before authentication",
              "-"),
    ),
    22: (  # InitProducerId
        Check("0-6", TRANSACTION, "transactional_id", WRITE, REQUEST, NO_TRANSACTION,
              "an id is given",
              "53"),
        Check("6", TRANSACTION, "transactional_id", TWO_PHASE_COMMIT, REQUEST, NO_TRANSACTION,
              "enable_2pc; 4.3.1 closes on v6 (not stable)",
              "53"),
        Check("0-6", CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE, REQUEST, None,
              "no id is given; denial unlogged",
              "see the next row"),
        Check("0-6", TOPIC, "any topic", WRITE, REQUEST, NO_CLUSTER,
              "only if IDEMPOTENT_WRITE is missing: WRITE on at least one topic pattern that no DENY pattern covers",
              "31"),
    ),
    24: (  # AddPartitionsToTxn
        Check("0-3", TRANSACTION, "transactional_id", WRITE, REQUEST, NO_TRANSACTION,
              "first",
              "53 in every partition",
              Whole("v3_and_below_transactional_id")),
        Check("0-3", TOPIC, "each topic that is not internal", WRITE, ITEM, NO_TOPIC,
              "internal topics are refused as if denied",
              "29 in its partitions, 55 OPERATION_NOT_ATTEMPTED in the others; nothing is added"),
        Check("4-5", CLUSTER, "kafka-cluster", CLUSTER_ACTION, REQUEST, NO_CLUSTER,
              "first; then no id and no topic is checked",
              "31 at top level",
              Whole()),
    ),
    25: (  # AddOffsetsToTxn
        Check("0-4", TRANSACTION, "transactional_id", WRITE, REQUEST, NO_TRANSACTION,
              "first",
              "53",
              Whole("transactional_id")),
        Check("0-4", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "second",
              "30",
              Whole("group_id")),
    ),
    26: (  # EndTxn
        Check("0-5", TRANSACTION, "transactional_id", WRITE, REQUEST, NO_TRANSACTION,
              "first",
              "53",
              Whole("transactional_id")),
    ),
    27: (  # WriteTxnMarkers
        Check("1-2", CLUSTER, "kafka-cluster", ALTER, REQUEST, None,
              "first, unlogged",
              "see the next row"),
        Check("1-2", CLUSTER, "kafka-cluster", CLUSTER_ACTION, REQUEST, NO_CLUSTER,
              "only if ALTER is missing",
              "31 in every partition of every marker",
              Whole(unless=ALTER)),
    ),
    28: (  # TxnOffsetCommit
        Check("0-5", TRANSACTION, "transactional_id", WRITE, REQUEST, NO_TRANSACTION,
              "first",
              "53 in every partition",
              Whole("transactional_id")),
        Check("0-5", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "second",
              "30 in every partition",
              Whole("group_id")),
        Check("0-5", TOPIC, "each topic", READ, ITEM, NO_TOPIC,
              "before existence",
              "29 in its partitions; the others are committed",
              Each("topics", "name", "topics")),
    ),
    36: (  # SaslAuthenticate
        Check("0-2", None, "-", None, NONE, NO_SASL,
              "after authentication is complete",
              "34 ILLEGAL_SASL_STATE"),
    ),
    47: (  # OffsetDelete
        Check("0", GROUP, "group_id", DELETE, REQUEST, NO_GROUP,
              "first",
              "30 at top level",
              Whole("group_id")),
        Check("0", TOPIC, "each topic", READ, ITEM, NO_TOPIC,
              "before existence",
              "29 in each partition"),
    ),
    68: (  # ConsumerGroupHeartbeat
        Check("0-1", GROUP, "group_id", READ, REQUEST, NO_GROUP,
              "after 35 if the protocol is off",
              "30"),
        Check("0-1", TOPIC, "each subscribed name", DESCRIBE, REQUEST, NO_TOPIC,
              "if names are sent; one denied is enough",
              "29 at top level; the member does not join"),
        Check("1", TOPIC, "each topic that the regex matches", DESCRIBE, FILTER, None,
              "when the regex is resolved, with the rights of the member that caused it; the result serves the "
              "whole group until it is resolved again",
              "topic is left out of the subscription, unlogged"),
    ),
    71: (  # GetTelemetrySubscriptions
        Check("0", None, "-", None, NONE, None,
              "never",
              "-"),
    ),
    72: (  # PushTelemetry
        Check("0", None, "-", None, NONE, None,
              "never",
              "-"),
    ),
}
# fmt: on
