"""SaslHandshake (key 17, versions 0 and 1): brokers of the cluster prove themselves by a mechanism of our own.

KIP-43; SaslAuthenticate follows (KIP-152). The gate of a listener with SASL answers its clients. Unlike in Apache Kafka
it is served on listeners without SASL too, and ApiVersions does not announce it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.sasl import MECHANISM

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    if request.mechanism != MECHANISM:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[MECHANISM])
    proof = call.node.membership()
    proof.certificate_hash = call.node.certificates.hash_of(call.connection.listener)
    call.connection.proof = proof
    return SaslHandshakeResponse(mechanisms=[MECHANISM])
