"""The API table: for each key its classes, and the versions served and announced. `checks.py` has the rights it takes.

The connection looks up how to read a header here, dispatch the rest. A module of messages is imported at the first
use of its key.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ottla.schema.codec import decoder, encoder

SASL_HANDSHAKE_KEY = 17
API_VERSIONS_KEY = 18
SASL_AUTHENTICATE_KEY = 36
MOST_BYTES = 4 << 20
"""The limit of a request with names and numbers: ten thousand topics with the longest names fit."""
MOST_BYTES_WITH_BLOBS = 16 << 20
"""The limit of a request with members' metadata, or with the metadata of their commits."""
MOST_BYTES_OF_PROOFS = 4 << 10
"""The limit of a request by which a client identifies itself: it is not trusted yet."""


Refusal = Callable[[Any, int, int], Any]
"""(request, error code, version) to the answer; None where that version has no place for the error in this answer."""


class Versions(NamedTuple):
    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Api:
    """One API.

    `served` are the versions that a request may have; `announced` is what ApiVersions says of them, as Apache Kafka
    4.3.1 does. `peers_only` marks APIs that only brokers of the cluster call: they are not announced. A request longer
    than `most_bytes` is not decoded; None leaves it to `socket.request.max.bytes`.
    """

    __slots__ = (
        "_refusal",
        "_request",
        "_response",
        "announced",
        "flexible_since",
        "key",
        "module",
        "most_bytes",
        "name",
        "peers_only",
        "served",
    )

    def __init__(
        self,
        key: int,
        name: str,
        *,
        served: Versions,
        flexible_since: int | None,
        announced: Versions | None = None,
        peers_only: bool = False,
        most_bytes: int | None = MOST_BYTES,
    ) -> None:
        self.key = key
        self.most_bytes = most_bytes
        self.name = name
        self.served = served
        self.announced = announced or served
        self.flexible_since = flexible_since
        self.peers_only = peers_only
        self.module = "ottla.messages." + "".join("_" + c.lower() if c.isupper() else c for c in name)[1:]
        self._request: type | None = None
        self._response: type | None = None
        self._refusal: Refusal | None = None

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name}>"

    @property
    def request(self) -> type:
        """The class of the request."""
        if self._request is None:
            self._load()
        assert self._request is not None
        return self._request

    @property
    def response(self) -> type:
        """The class of the response."""
        if self._response is None:
            self._load()
        assert self._response is not None
        return self._response

    @property
    def refusal(self) -> Refusal | None:
        """Puts an error into the answer to a whole request; declared beside the messages, None if done by hand."""
        if self._request is None:
            self._load()
        return self._refusal

    def _load(self) -> None:
        module = import_module(self.module)
        self._request = getattr(module, f"{self.name}Request")
        self._response = getattr(module, f"{self.name}Response")
        self._refusal = getattr(module, "refusal", None)

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def request_header_version(self, version: int) -> int:
        """2 if the request is flexible, else 1."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """1 if the response is flexible, else 0. ApiVersions always answers with 0 (KIP-511)."""
        return 1 if self.key != API_VERSIONS_KEY and self.is_flexible(version) else 0

    def request_decoder(self, version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
        return decoder(self.request, version)

    def request_encoder(self, version: int) -> Callable[[Any, bytearray], None]:
        return encoder(self.request, version)

    def response_decoder(self, version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
        return decoder(self.response, version)

    def response_encoder(self, version: int) -> Callable[[Any, bytearray], None]:
        return encoder(self.response, version)


def _api(
    key: int,
    name: str,
    served: tuple[int, int],
    flexible_since: int | None,
    *,
    announced: tuple[int, int] | None = None,
    peers_only: bool = False,
    most_bytes: int | None = MOST_BYTES,
) -> Api:
    return Api(
        key,
        name,
        served=Versions(*served),
        flexible_since=flexible_since,
        announced=None if announced is None else Versions(*announced),
        peers_only=peers_only,
        most_bytes=most_bytes,
    )


# Produce is announced from 0 on, although 0 to 2 are refused: librdkafka before 2.11.1 turns features off unless it
# finds exact old versions (KAFKA-18659). InitProducerId 6 is not stable in 4.3.
_TABLE = (
    _api(0, "Produce", (3, 13), 9, announced=(0, 13), most_bytes=None),
    _api(1, "Fetch", (4, 18), 12),
    _api(2, "ListOffsets", (1, 11), 6),
    _api(3, "Metadata", (0, 13), 9),
    _api(8, "OffsetCommit", (2, 10), 8, most_bytes=MOST_BYTES_WITH_BLOBS),
    _api(9, "OffsetFetch", (1, 10), 6),
    _api(10, "FindCoordinator", (0, 6), 3),
    _api(11, "JoinGroup", (0, 9), 6, most_bytes=MOST_BYTES_WITH_BLOBS),
    _api(12, "Heartbeat", (0, 4), 4),
    _api(13, "LeaveGroup", (0, 5), 4),
    _api(14, "SyncGroup", (0, 5), 4, most_bytes=MOST_BYTES_WITH_BLOBS),
    _api(15, "DescribeGroups", (0, 6), 5),
    _api(16, "ListGroups", (0, 5), 3),
    _api(SASL_HANDSHAKE_KEY, "SaslHandshake", (0, 1), None, peers_only=True, most_bytes=MOST_BYTES_OF_PROOFS),
    _api(API_VERSIONS_KEY, "ApiVersions", (0, 4), 3),
    _api(19, "CreateTopics", (2, 7), 5),
    _api(20, "DeleteTopics", (1, 6), 4),
    _api(21, "DeleteRecords", (0, 2), 2),
    _api(22, "InitProducerId", (0, 6), 2, announced=(0, 5)),
    _api(23, "OffsetForLeaderEpoch", (2, 4), 4),
    _api(24, "AddPartitionsToTxn", (0, 5), 3),
    _api(25, "AddOffsetsToTxn", (0, 4), 3),
    _api(26, "EndTxn", (0, 5), 3),
    _api(27, "WriteTxnMarkers", (1, 2), 1),
    _api(28, "TxnOffsetCommit", (0, 5), 3, most_bytes=MOST_BYTES_WITH_BLOBS),
    _api(29, "DescribeAcls", (1, 3), 2),
    _api(30, "CreateAcls", (1, 3), 2),
    _api(31, "DeleteAcls", (1, 3), 2),
    _api(32, "DescribeConfigs", (1, 4), 4),
    _api(33, "AlterConfigs", (0, 2), 2),
    _api(34, "AlterReplicaLogDirs", (1, 2), 2),
    _api(35, "DescribeLogDirs", (1, 5), 2),
    _api(SASL_AUTHENTICATE_KEY, "SaslAuthenticate", (0, 2), 2, peers_only=True, most_bytes=MOST_BYTES_OF_PROOFS),
    _api(37, "CreatePartitions", (0, 3), 2),
    _api(38, "CreateDelegationToken", (1, 3), 2),
    _api(39, "RenewDelegationToken", (1, 2), 2),
    _api(40, "ExpireDelegationToken", (1, 2), 2),
    _api(41, "DescribeDelegationToken", (1, 3), 2),
    _api(42, "DeleteGroups", (0, 2), 2),
    _api(43, "ElectLeaders", (0, 2), 2),
    _api(44, "IncrementalAlterConfigs", (0, 1), 1),
    _api(45, "AlterPartitionReassignments", (0, 1), 0),
    _api(46, "ListPartitionReassignments", (0, 0), 0),
    _api(47, "OffsetDelete", (0, 0), None),
    _api(48, "DescribeClientQuotas", (0, 1), 1),
    _api(49, "AlterClientQuotas", (0, 1), 1),
    _api(50, "DescribeUserScramCredentials", (0, 0), 0),
    _api(51, "AlterUserScramCredentials", (0, 0), 0),
    _api(55, "DescribeQuorum", (0, 2), 0),
    _api(57, "UpdateFeatures", (0, 2), 0),
    _api(60, "DescribeCluster", (0, 2), 0),
    _api(61, "DescribeProducers", (0, 0), 0),
    _api(64, "UnregisterBroker", (0, 0), 0),
    _api(65, "DescribeTransactions", (0, 0), 0),
    _api(66, "ListTransactions", (0, 2), 0),
    _api(68, "ConsumerGroupHeartbeat", (0, 1), 0),
    _api(69, "ConsumerGroupDescribe", (0, 1), 0),
    _api(71, "GetTelemetrySubscriptions", (0, 0), 0),
    _api(72, "PushTelemetry", (0, 0), 0),
    _api(74, "ListConfigResources", (0, 1), 0),
    _api(75, "DescribeTopicPartitions", (0, 0), 0),
)

APIS: dict[int, Api] = {api.key: api for api in _TABLE}
"""Every API that the broker knows, by key."""
