"""The error codes of the Kafka protocol, up to Apache Kafka 4.3, and the exceptions that refuse or stop a broker."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """A code as it stands in a response; names and numbers are Kafka's, sentences ours.

    `retriable` says whether Kafka's clients try again by themselves.
    """

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "The broker failed in a way it did not foresee while it served the request."
    NONE = 0, ""
    OFFSET_OUT_OF_RANGE = 1, "The offset lies outside the range that the broker keeps for this partition."
    CORRUPT_MESSAGE = (
        2,
        "The batch fails its CRC, has no valid size, lacks a required key, or is corrupt otherwise.",
        True,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker does not host this topic or partition.", True
    INVALID_FETCH_SIZE = 4, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at this moment.", True
    NOT_LEADER_OR_FOLLOWER = 6, "This broker is not the leader, or not a replica, of the partition.", True
    REQUEST_TIMED_OUT = 7, "The request timed out.", True
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica of this partition is not available.", True
    MESSAGE_TOO_LARGE = 10, "A batch is larger than the topic's max.message.bytes."
    STALE_CONTROLLER_EPOCH = 11, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata text of a committed offset is too long."
    NETWORK_EXCEPTION = 13, "The connection ended before a response came.", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading.", True
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", True
    NOT_COORDINATOR = 16, "This broker is not the coordinator.", True
    INVALID_TOPIC_EXCEPTION = 17, "The topic's name is not valid, or it does not allow this operation."
    RECORD_LIST_TOO_LARGE = 18, "A batch is larger than the topic's segment size."
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than min.insync.replicas asks for: nothing was written.", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written, but to fewer in-sync replicas than min.insync.replicas asks for.",
        True,
    )
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, "The group has another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member's protocol type or protocols do not fit those of the group."
    INVALID_GROUP_ID = 24, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the range that the broker allows."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The data of the committed offset is too large."
    TOPIC_AUTHORIZATION_FAILED = 29, "Not authorized for this topic."
    GROUP_AUTHORIZATION_FAILED = 30, "Not authorized for this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not authorized for this cluster."
    INVALID_TIMESTAMP = 32, "A record's timestamp is outside the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, "The broker does not serve this version of the API."
    TOPIC_ALREADY_EXISTS = 36, "A topic with this name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, "The replication factor is below 1 or above the number of live brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas is not valid."
    INVALID_CONFIG = 40, "The configuration is not valid."
    NOT_CONTROLLER = 41, "This broker is not the controller.", True
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The record format on the broker does not allow the request."
    POLICY_VIOLATION = 44, "The request breaks the policy configured on the broker."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence number does not follow the last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer's sequence number was used before."
    INVALID_PRODUCER_EPOCH = 47, "The producer has an old epoch."
    INVALID_TXN_STATE = 48, "The transaction's state does not allow the operation."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id is not the one assigned to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, "Another operation on the same transaction is under way.", True
    TRANSACTION_COORDINATOR_FENCED = 52, "The sender is no longer the coordinator of this transaction."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not authorized for this transactional id."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, "The broker did not attempt this one of several operations."
    KAFKA_STORAGE_ERROR = 56, "The disk failed under the partition's log.", True
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The broker no longer knows this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The delegation token does not exist."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal is neither owner nor renewer of the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation tokens cannot be asked for on this kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not authorized for this delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The type of the principal is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session does not exist.", True
    INVALID_FETCH_SESSION_EPOCH = 71, "The epoch of the fetch session is not the expected one.", True
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the name that the request came through.", True
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is disabled."
    FENCED_LEADER_EPOCH = 74, "The leader epoch in the request is older than the broker's.", True
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch in the request is newer than the broker's.", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client's version of the API cannot carry the partition's compression."
    STALE_BROKER_EPOCH = 77, "The broker has another epoch."
    OFFSET_NOT_AVAILABLE = 78, "The high watermark has not caught up since the leader was elected.", True
    MEMBER_ID_REQUIRED = 79, "Join again with the member id given in this response."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", True
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "Another member has taken over this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica that may lead is available.", True
    ELECTION_NOT_NEEDED = 84, "The partition needs no election.", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is subscribed to the topic, so its offsets stay."
    INVALID_RECORD = 87, "A record breaks a rule of the topic or of the format."
    UNSTABLE_OFFSET_COMMIT = 88, "Offsets of an open transaction are pending.", True
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is exceeded.", True
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, "Sender or receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, "The version of the update is not valid."
    FEATURE_UPDATE_FAILED = 96, "The finalized features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker does not host a topic with this id.", True
    DUPLICATE_BROKER_REGISTRATION = 101, "The broker id is in use already."
    BROKER_ID_NOT_REGISTERED = 102, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, "The log belongs to a topic with another id.", True
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session uses topic names and topic ids at once.", True
    INELIGIBLE_REPLICA = 107, "A replica proposed for the in-sync set may not be in it."
    NEW_LEADER_ELECTED = 108, "The change was made, and the leader has changed."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is now in tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member's epoch is fenced: give up all partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "Another member of the group still uses the instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support the assignor or its version."
    STALE_MEMBER_EPOCH = 113, "The member's epoch is old: heartbeat to learn the new one, then try again."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request came to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "The controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is not valid or out of date."
    TELEMETRY_TOO_LARGE = 118, "The pushed telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The broker's registration is not valid."
    TRANSACTION_ABORTABLE = 120, "The transaction failed; abort it to go on with the same transactional id."
    INVALID_RECORD_STATE = 121, "The record's state does not allow the acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, "The share session does not exist.", True
    INVALID_SHARE_SESSION_EPOCH = 123, "The epoch of the share session is not the expected one.", True
    FENCED_STATE_EPOCH = 124, "The epoch of the share group's state does not match."
    INVALID_VOTER_KEY = 125, "The voter's key is not that of the replica."
    DUPLICATE_VOTER = 126, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, "The client's metadata is stale: bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The topology's epoch is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker holds as many share sessions as it may.", True


_LONGEST_TEXT = 4096
"""In characters of up to 4 bytes each: a string of the protocol has at most 32,767 bytes."""
_LONGEST_END = 2000


def clipped(text: str) -> str:
    """The beginning and the end of a long text that goes back to a client, so that the answer can be encoded."""
    if len(text) <= _LONGEST_TEXT:
        return text
    left_out = len(text) - 2 * _LONGEST_END
    return f"{text[:_LONGEST_END]}...({left_out} characters)...{text[-_LONGEST_END:]}"


class InvariantBroken(Exception):
    """The broker's state of a log or of the cluster contradicts itself: the broker stops (rule F1).

    Raised with a sentence that names what is wrong, by code that would otherwise lose or invent records. An assert is
    for other faults of ours: it costs one request.
    """


class ApiError(Exception):
    """An answer that is an error: its `code`, and in `message` a sentence for the client; clipped where it is long."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        self.code = code
        self.message = clipped(message or code.message)
        super().__init__(f"{code.name}: {self.message}")
