"""Before a broker says that something does not exist: another may have made it, and this one not heard of it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def look_again(call: Call) -> ApiError | None:
    """Apply all that is in the metadata log by now; an error where that cannot be read."""
    try:
        await call.node.follow.catch_up()
    except OSError:
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, "The metadata of the cluster cannot be read now: try again later.")
    return None
