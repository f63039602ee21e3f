"""SaslAuthenticate (key 36, versions 0 to 2): two steps, after which the connection belongs to a broker or is closed.

KIP-152, only for brokers of the cluster: the gate of a listener with SASL answers its clients.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.sasl import NotProven

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

log = logging.getLogger("ottla.peers")


async def handle(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    connection = call.connection
    proof, connection.proof = connection.proof, None  # a failed step cannot be continued
    if proof is None:
        log.warning("%s: a proof without a handshake; closed", connection.name)
        connection.close_after_answer()
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    try:
        answer = await proof.step(bytes(request.auth_bytes))
    except NotProven as fault:
        log.warning("%s is no broker of this cluster: %s; closed", connection.name, fault)
        if call.node.audit is not None:
            told = {"client": connection.peer_host, "listener": connection.listener, "why": f"no broker: {fault}"}
            call.node.audit({"event": "login refused", **told})
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
