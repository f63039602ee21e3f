"""Java's exceptions by class name and sentence, as Kafka's tools print them, for the codes that reach their output."""

from __future__ import annotations

from ottla.client.errors import ClientError, Refused
from ottla.kernel.errors import ApiError, ErrorCode

_PACKAGE = "org.apache.kafka.common.errors."

_TOLD: dict[ErrorCode, tuple[str, str]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "OffsetOutOfRangeException",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (
        "NotLeaderOrFollowerException",
        "For requests intended only for the leader, this error indicates that the broker is not the current leader. "
        "For requests intended for any replica, this error indicates that the broker is not a replica of the topic "
        "partition.",
    ),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The configured groupId is invalid."),
    ErrorCode.TOPIC_ALREADY_EXISTS: ("TopicExistsException", "Topic with this name already exists."),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "InvalidTopicException",
        "The request attempted to perform an operation on an invalid topic.",
    ),
    ErrorCode.INVALID_PARTITIONS: ("InvalidPartitionsException", "Number of partitions is below 1."),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "InvalidReplicationFactorException",
        "Replication factor is below 1 or larger than the number of available brokers.",
    ),
    ErrorCode.INVALID_CONFIG: ("InvalidConfigurationException", "Configuration is invalid."),
    ErrorCode.INVALID_REQUEST: (
        "InvalidRequestException",
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details.",
    ),
    ErrorCode.POLICY_VIOLATION: (
        "PolicyViolationException",
        "Request parameters do not satisfy the configured policy.",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ("CoordinatorNotAvailableException", "The coordinator is not available."),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("TopicAuthorizationException", "Topic authorization failed."),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("GroupAuthorizationException", "Group authorization failed."),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("ClusterAuthorizationException", "Cluster authorization failed."),
    ErrorCode.KAFKA_STORAGE_ERROR: (
        "KafkaStorageException",
        "Disk error when trying to access log file on the disk.",
    ),
    ErrorCode.POLICY_VIOLATION: (
        "PolicyViolationException",
        "Request parameters do not satisfy the configured policy.",
    ),
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "UnknownServerException",
        "The server experienced an unexpected error when processing the request.",
    ),
}


def told(fault: Exception) -> str:
    """The sentence of an error: the broker's own if it sent one."""
    if (
        isinstance(fault, Refused)
        and fault.reason
        and not fault.reason.startswith(("it does not exist", "the topic has"))
    ):
        return fault.reason
    if isinstance(fault, ApiError):
        return _TOLD.get(fault.code, ("", fault.code.message))[1]
    return str(fault)


def java(fault: Exception) -> str:
    """Class name and sentence, as Java prints an exception."""
    if isinstance(fault, ApiError):
        known = _TOLD.get(fault.code)
        name = known[0] if known else "".join(part.capitalize() for part in fault.code.name.split("_")) + "Exception"
        return f"{_PACKAGE}{name}: {told(fault)}"
    if isinstance(fault, ClientError):
        return f"{_PACKAGE}TimeoutException: {fault}"
    return str(fault)
