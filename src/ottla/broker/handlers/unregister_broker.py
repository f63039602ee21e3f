"""UnregisterBroker (key 64, version 0): the cluster forgets a broker (KIP-631).

Its replicas stay assigned until they are moved. A broker that runs loses its leaderships and stops; it registers again
when it is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.broker_commands import UnregisterBroker
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import BrokerId
from ottla.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def handle(call: Call, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    response = UnregisterBrokerResponse(error_message=None)
    outcome = await call.node.follow.submit(UnregisterBroker(BrokerId(request.broker_id)))
    if isinstance(outcome, ApiError):
        response.error_code = outcome.code
        response.error_message = outcome.message
    return response
