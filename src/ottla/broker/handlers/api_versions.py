"""ApiVersions (key 18): what this broker serves, as Apache Kafka 4.3.1 announces it for the same APIs.

The APIs of transactions and the feature `transaction.version` are announced together, once every broker of the cluster
has them: the feature, not the versions of the APIs, is what clients go by. So are those of consumer groups.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.transactions.values import EPOCH_BUMPS
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call

_TRANSACTION_VERSION = "transaction.version"
_OF_TRANSACTIONS = frozenset({24, 25, 26, 27, 28, 65, 66})
_GROUP_VERSION = "group.version"
_CONSUMER_GROUPS = 1
"""The level of `group.version` from which on there are groups of the consumer protocol."""
_OF_CONSUMER_GROUPS = frozenset({68, 69})
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.api_version >= 3:
        software, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(software) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        call.connection.software_name = software
        call.connection.software_version = version
    hidden = frozenset() if call.node.has_transactions else _OF_TRANSACTIONS
    if not call.node.has_consumer_groups:
        hidden |= _OF_CONSUMER_GROUPS
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=api.announced.first, max_version=api.announced.last)
            for key, api in sorted(APIS.items())
            if not api.peers_only and key not in hidden
        ]
    )
    if call.node.has_transactions:
        _tell_feature(response, _TRANSACTION_VERSION, EPOCH_BUMPS, epoch=call.node.metadata.version)
    if call.node.has_consumer_groups:
        _tell_feature(response, _GROUP_VERSION, _CONSUMER_GROUPS, epoch=call.node.metadata.version)
    return response


def _tell_feature(response: ApiVersionsResponse, name: str, level: int, *, epoch: int) -> None:
    response.finalized_features_epoch = epoch
    response.supported_features.append(SupportedFeatureKey(name=name, min_version=0, max_version=level))
    response.finalized_features.append(FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level))
