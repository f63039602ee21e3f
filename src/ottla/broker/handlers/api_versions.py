"""ApiVersions (key 18): what this broker serves, as Apache Kafka 4.3.1 announces it for the same APIs.

No `transaction.version` is finalized: there are no transactions yet, and clients stay away from them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.broker.dispatch import Call

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.api_version >= 3:
        software, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(software) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        call.connection.software_name = software
        call.connection.software_version = version
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=api.announced.first, max_version=api.announced.last)
            for key, api in sorted(APIS.items())
            if not api.peers_only
        ]
    )
