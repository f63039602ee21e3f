"""The rights that describing and changing the cluster take: one row a check.

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
TOKEN = ResourceKind.DELEGATION_TOKEN
USER = ResourceKind.USER
READ = Operation.READ
CREATE = Operation.CREATE
DELETE = Operation.DELETE
ALTER = Operation.ALTER
DESCRIBE = Operation.DESCRIBE
CLUSTER_ACTION = Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS = Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS = Operation.ALTER_CONFIGS
CREATE_TOKENS = Operation.CREATE_TOKENS
DESCRIBE_TOKENS = Operation.DESCRIBE_TOKENS
GROUP_OPERATIONS = OPERATIONS_OF[GROUP]
REQUEST = CheckScope.REQUEST
ITEM = CheckScope.ITEM
FILTER = CheckScope.FILTER
FIELD = CheckScope.FIELD
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NOT_BY_TOKEN = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NOT_OWN_TOKEN = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
# fmt: off
OF_ADMINS: dict[int, tuple[Check, ...]] = {
    15: (  # DescribeGroups
        Check("0-6", GROUP, "each group", DESCRIBE, ITEM, NO_GROUP,
              "each group by itself",
              "30 for the group",
              Each("groups", "", "groups")),
        Check("3-6", GROUP, "each answered group", GROUP_OPERATIONS, FIELD, None,
              "include_authorized_operations and no error",
              "bits of what is allowed"),
    ),
    19: (  # CreateTopics
        Check("2-7", CLUSTER, "kafka-cluster", CREATE, REQUEST, None,
              "first, unlogged; if allowed no topic is checked",
              "see the next row"),
        Check("2-7", TOPIC, "each topic", CREATE, ITEM, NO_TOPIC,
              "only if CREATE on the cluster is missing; before existence; duplicates in the request get 42 first",
              "29 for the topic, message 'Authorization failed.'",
              Each("topics", "name", "topics", unless=CREATE, repeated_first=True)),
        Check("5-7", TOPIC, "each created topic", DESCRIBE_CONFIGS, FIELD, NO_TOPIC,
              "after creation, unlogged",
              "topic_config_error_code 29, partitions -1, replication -1, configs absent; error_code 0"),
    ),
    20: (  # DeleteTopics
        Check("1-6", CLUSTER, "kafka-cluster", DELETE, REQUEST, None,
              "first, unlogged; if allowed no topic is checked",
              "see the next rows"),
        Check("1-6", TOPIC, "each topic by name", DESCRIBE, ITEM, NO_TOPIC,
              "before existence",
              "29, id zero"),
        Check("1-6", TOPIC, "each topic by name", DELETE, ITEM, NO_TOPIC,
              "with DESCRIBE; an unknown topic then gets 3",
              "29, id zero"),
        Check("6", TOPIC, "name behind the topic id", DELETE, ITEM, NO_TOPIC,
              "an unknown id gets 100 without a check",
              "29; the name only with DESCRIBE, else null. Answers of one request are shuffled"),
    ),
    21: (  # DeleteRecords
        Check("0-2", TOPIC, "each topic", DELETE, ITEM, NO_TOPIC,
              "before existence",
              "29 in each partition, low watermark -1",
              Each("topics", "name", "topics")),
    ),
    23: (  # OffsetForLeaderEpoch
        Check("2-4", CLUSTER, "kafka-cluster", CLUSTER_ACTION, REQUEST, None,
              "first, unlogged; if allowed no topic is checked",
              "see the next row"),
        Check("2-4", TOPIC, "each topic", DESCRIBE, ITEM, NO_TOPIC,
              "only if CLUSTER_ACTION is missing",
              "29 in each partition, epoch -1, end -1",
              Each("topics", "topic", "topics", unless=CLUSTER_ACTION)),
    ),
    29: (  # DescribeAcls
        Check("1-3", CLUSTER, "kafka-cluster", DESCRIBE, REQUEST, NO_CLUSTER,
              "first; without an authorizer 54",
              "31",
              Whole()),
    ),
    30: (  # CreateAcls
        Check("1-3", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first; without an authorizer 54 in each creation",
              "31 in every creation; the message holds the whole request (do not)",
              Whole()),
    ),
    31: (  # DeleteAcls
        Check("1-3", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first; without an authorizer 54 in each filter",
              "31 in every filter",
              Whole()),
    ),
    32: (  # DescribeConfigs
        Check("1-4", CLUSTER, "kafka-cluster", DESCRIBE_CONFIGS, ITEM, NO_CLUSTER,
              "resource BROKER, BROKER_LOGGER or CLIENT_METRICS",
              "31 for the resource",
              Each("resources", "resource_name", "results", types=(4, 8, 16))),
        Check("1-4", TOPIC, "each topic resource", DESCRIBE_CONFIGS, ITEM, NO_TOPIC,
              "before existence",
              "29 for the resource",
              Each("resources", "resource_name", "results", types=(2,))),
        Check("1-4", GROUP, "each group resource", DESCRIBE_CONFIGS, ITEM, NO_GROUP,
              "before existence",
              "30 for the resource",
              Each("resources", "resource_name", "results", types=(32,))),
    ),
    33: (  # AlterConfigs
        Check("0-2", CLUSTER, "kafka-cluster", ALTER_CONFIGS, ITEM, NO_CLUSTER,
              "resource BROKER or CLIENT_METRICS; duplicates, null values and (BROKER) the values themselves are "
              "judged before, so 42 or 40 may come first",
              "31 for the resource",
              Each("resources", "resource_name", "responses", types=(4, 16), repeated_first=True)),
        Check("0-2", TOPIC, "each topic resource", ALTER_CONFIGS, ITEM, NO_TOPIC,
              "before existence",
              "29 for the resource",
              Each("resources", "resource_name", "responses", types=(2,), repeated_first=True)),
        Check("0-2", GROUP, "each group resource", ALTER_CONFIGS, ITEM, NO_GROUP,
              "before validation",
              "30 for the resource",
              Each("resources", "resource_name", "responses", types=(32,), repeated_first=True)),
    ),
    34: (  # AlterReplicaLogDirs
        Check("1-2", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first",
              "31 in every partition",
              Whole()),
    ),
    35: (  # DescribeLogDirs
        Check("1-2", CLUSTER, "kafka-cluster", DESCRIBE, REQUEST, None,
              "first",
              "no results, no error (no field for it)"),
        Check("3-5", CLUSTER, "kafka-cluster", DESCRIBE, REQUEST, NO_CLUSTER,
              "first",
              "31 at top level, no results"),
    ),
    37: (  # CreatePartitions
        Check("0-3", TOPIC, "each topic", ALTER, ITEM, NO_TOPIC,
              "before existence; duplicates get 42 first",
              "29 for the topic",
              Each("topics", "name", "results", repeated_first=True)),
    ),
    38: (  # CreateDelegationToken
        Check("1-3", None, "-", None, REQUEST, NOT_BY_TOKEN,
              "connection is PLAINTEXT, or SSL without a client certificate, or authenticated by a token",
              "64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
        Check("3", USER, "owner as Type:name", CREATE_TOKENS, REQUEST, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
              "an owner other than the requester is named",
              "65 DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
    ),
    39: (  # RenewDelegationToken
        Check("1-2", None, "-", None, REQUEST, NOT_BY_TOKEN,
              "as CreateDelegationToken's first row",
              "64, timestamp -1"),
        Check("1-2", None, "owner or renewer of the token", None, REQUEST, NOT_OWN_TOKEN,
              "after 61 disabled, 62 unknown token, 66 expired",
              "63 DELEGATION_TOKEN_OWNER_MISMATCH"),
    ),
    40: (  # ExpireDelegationToken
        Check("1-2", None, "-", None, REQUEST, NOT_BY_TOKEN,
              "as CreateDelegationToken's first row",
              "64, timestamp -1"),
        Check("1-2", None, "owner or renewer of the token", None, REQUEST, NOT_OWN_TOKEN,
              "after 61 disabled, 62 unknown token",
              "63 DELEGATION_TOKEN_OWNER_MISMATCH"),
    ),
    41: (  # DescribeDelegationToken
        Check("1-3", None, "-", None, REQUEST, NOT_BY_TOKEN,
              "as CreateDelegationToken's first row; then 61 if tokens are off",
              "64"),
        Check("1-3", TOKEN, "token id", DESCRIBE, FILTER, None,
              "a token that the requester neither owns nor renews",
              "token is left out unless the next row allows it"),
        Check("1-3", USER, "owner as Type:name", DESCRIBE_TOKENS, FILTER, None,
              "if the row before denies",
              "token is left out"),
    ),
    42: (  # DeleteGroups
        Check("0-2", GROUP, "each group", DELETE, ITEM, NO_GROUP,
              "each group by itself",
              "30 for the group",
              Each("groups_names", "", "results")),
    ),
    43: (  # ElectLeaders
        Check("0-2", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first",
              "31 at top level (v1+) and in every named partition",
              Whole()),
    ),
    44: (  # IncrementalAlterConfigs
        Check("0-1", CLUSTER, "kafka-cluster", ALTER_CONFIGS, ITEM, NO_CLUSTER,
              "resource BROKER or CLIENT_METRICS; duplicates, null values and (BROKER) the values themselves are "
              "judged before, so 42 or 40 may come first",
              "31 for the resource",
              Each("resources", "resource_name", "responses", types=(4, 16), repeated_first=True)),
        Check("0-1", TOPIC, "each topic resource", ALTER_CONFIGS, ITEM, NO_TOPIC,
              "before existence",
              "29 for the resource",
              Each("resources", "resource_name", "responses", types=(2,), repeated_first=True)),
        Check("0-1", GROUP, "each group resource", ALTER_CONFIGS, ITEM, NO_GROUP,
              "before validation",
              "30 for the resource",
              Each("resources", "resource_name", "responses", types=(32,), repeated_first=True)),
        Check("0-1", CLUSTER, "kafka-cluster", ALTER_CONFIGS, ITEM, NO_CLUSTER,
              "resource BROKER_LOGGER, on the asked broker",
              "31 for the resource",
              Each("resources", "resource_name", "responses", types=(8,), repeated_first=True)),
    ),
    45: (  # AlterPartitionReassignments
        Check("0-1", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first",
              "31 at top level and in every partition",
              Whole()),
    ),
    46: (  # ListPartitionReassignments
        Check("0", CLUSTER, "kafka-cluster", DESCRIBE, REQUEST, NO_CLUSTER,
              "first",
              "31 at top level; named topics echoed with empty replicas",
              Whole()),
    ),
    48: (  # DescribeClientQuotas
        Check("0-1", CLUSTER, "kafka-cluster", DESCRIBE_CONFIGS, REQUEST, NO_CLUSTER,
              "first",
              "31, entries null",
              Whole()),
    ),
    49: (  # AlterClientQuotas
        Check("0-1", CLUSTER, "kafka-cluster", ALTER_CONFIGS, REQUEST, NO_CLUSTER,
              "first",
              "31 in every entry",
              Whole()),
    ),
    50: (  # DescribeUserScramCredentials
        Check("0", CLUSTER, "kafka-cluster", DESCRIBE, REQUEST, NO_CLUSTER,
              "first",
              "31 at top level and in one nameless result per asked user; with null users 4.3.1 never answers "
              "(answer 31)",
              Whole()),
    ),
    51: (  # AlterUserScramCredentials
        Check("0", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first",
              "31 in one result per user, sorted",
              Whole()),
    ),
    55: (  # DescribeQuorum
        Check("0-2", CLUSTER, "kafka-cluster", DESCRIBE, REQUEST, NO_CLUSTER,
              "first",
              "31 at top level",
              Whole()),
    ),
    57: (  # UpdateFeatures
        Check("0-2", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first",
              "31 at top level",
              Whole()),
    ),
    60: (  # DescribeCluster
        Check("0-2", CLUSTER, "kafka-cluster", DESCRIBE, FIELD, None,
              "include_cluster_authorized_operations; nodes, cluster id and controller need nothing",
              "cluster_authorized_operations = 0"),
    ),
    61: (  # DescribeProducers
        Check("0", TOPIC, "each topic", READ, ITEM, NO_TOPIC,
              "after the name is found valid (17), before existence",
              "29 in each partition",
              Each("topics", "name", "topics", invalid_first=True)),
    ),
    64: (  # UnregisterBroker
        Check("0", CLUSTER, "kafka-cluster", ALTER, REQUEST, NO_CLUSTER,
              "first",
              "31",
              Whole()),
    ),
    65: (  # DescribeTransactions
        Check("0", TRANSACTION, "each id", DESCRIBE, ITEM, NO_TRANSACTION,
              "each id by itself",
              "53 for the id",
              Each("transactional_ids", "", "transaction_states")),
        Check("0", TOPIC, "each topic of the transaction", DESCRIBE, FILTER, None,
              "allowed ids",
              "topic is left out"),
    ),
    66: (  # ListTransactions
        Check("0-2", TRANSACTION, "each id", DESCRIBE, FILTER, None,
              "each id (denial is logged)",
              "id is left out, no error"),
    ),
    69: (  # ConsumerGroupDescribe
        Check("0-1", GROUP, "each group", DESCRIBE, ITEM, NO_GROUP,
              "each group by itself",
              "30 for the group",
              Each("group_ids", "", "groups")),
        Check("0-1", TOPIC, "each topic assigned in the group", DESCRIBE, ITEM, NO_TOPIC,
              "after the group is described; one denied is enough",
              "29 for the group, no members, fixed message"),
    ),
    74: (  # ListConfigResources
        Check("0-1", CLUSTER, "kafka-cluster", DESCRIBE_CONFIGS, REQUEST, NO_CLUSTER,
              "first",
              "31",
              Whole()),
    ),
    75: (  # DescribeTopicPartitions
        Check("0", TOPIC, "each topic", DESCRIBE, FILTER, None,
              "all topics asked for (empty list)",
              "topic is left out"),
        Check("0", TOPIC, "each named topic", DESCRIBE, ITEM, NO_TOPIC,
              "before existence",
              "29, id zero, no partitions"),
    ),
}
# fmt: on
