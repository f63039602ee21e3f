"""SaslAuthenticate (key 36, versions 0 to 2): two steps, after which the connection belongs to a broker or is closed.

KIP-152, only for brokers of the cluster: clients have no mechanism yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.sasl import NotProven

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    connection = call.connection
    proof, connection.proof = connection.proof, None  # a failed step cannot be continued
    if proof is None:
        connection.close_after_answer()
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    try:
        answer = await proof.step(bytes(request.auth_bytes))
    except NotProven:
        connection.close_after_answer()
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Not a broker of this cluster."
        )
    if proof.proven is None:
        connection.proof = proof
    else:
        connection.peer, connection.peer_epoch = proof.proven
        call.node.doubts.came(*proof.proven, connection)
    return SaslAuthenticateResponse(auth_bytes=answer)
