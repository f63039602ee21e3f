"""ApiVersions (key 18, versions 0 to 4): what this broker serves, as Apache Kafka 4.3.1 announces it for the same APIs.

The APIs of transactions and the feature `transaction.version` are announced together, once every broker of the cluster
has them: clients go by the feature, not by API versions (KIP-584). The same holds for consumer groups.
A client of a later version is answered in version 0 (KIP-511).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.cluster import features
from ottla.kernel.errors import ErrorCode
from ottla.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.wire.apis import APIS, SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.metadata.state import Metadata

_OF_TRANSACTIONS = frozenset({24, 25, 26, 27, 28, 65, 66})
_OF_CONSUMER_GROUPS = frozenset({68, 69})
_OF_SASL = frozenset({SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY})
_LEVEL_0_SINCE = 4
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
            if key not in hidden and (not api.peers_only or (call.connection.login is not None and key in _OF_SASL))
        ]
    )
    if call.node.has_transactions:
        _tell_features(response, call.node.metadata, with_level_0=call.api_version >= _LEVEL_0_SINCE)
    return response


def _tell_features(response: ApiVersionsResponse, state: Metadata, *, with_level_0: bool) -> None:
    """Add the features. Older clients cannot read a minimum level of 0: they get the finalized one (KAFKA-17492).

    A finalized level of 0 is left out, as in Apache Kafka.
    """
    for feature in features.supported(state):
        if with_level_0:
            known = SupportedFeatureKey(name=feature.name, min_version=0, max_version=feature.latest)
            response.supported_features.append(known)
        if level := features.level(state, feature):
            response.finalized_features.append(
                FinalizedFeatureKey(name=feature.name, min_version_level=level, max_version_level=level)
            )
    response.finalized_features_epoch = state.version
