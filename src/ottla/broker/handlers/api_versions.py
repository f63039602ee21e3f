"""ApiVersions (key 18): what this broker serves, as Apache Kafka 4.3.1 announces it for the same APIs.

The APIs of transactions and the feature `transaction.version` are announced together, once every broker of the cluster
has them: the feature, not the versions of the APIs, is what clients go by.
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
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.api_version >= 3:
        software, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(software) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        call.connection.software_name = software
        call.connection.software_version = version
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=api.announced.first, max_version=api.announced.last)
            for key, api in sorted(APIS.items())
            if not api.peers_only and (call.node.has_transactions or key not in _OF_TRANSACTIONS)
        ]
    )
    if call.node.has_transactions:
        _tell_features(response, epoch=call.node.metadata.version)
    return response


def _tell_features(response: ApiVersionsResponse, *, epoch: int) -> None:
    response.supported_features = [
        SupportedFeatureKey(name=_TRANSACTION_VERSION, min_version=0, max_version=EPOCH_BUMPS)
    ]
    response.finalized_features_epoch = epoch
    response.finalized_features = [
        FinalizedFeatureKey(name=_TRANSACTION_VERSION, min_version_level=EPOCH_BUMPS, max_version_level=EPOCH_BUMPS)
    ]
