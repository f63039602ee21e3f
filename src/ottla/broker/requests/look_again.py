"""Reads the metadata log before a broker answers that something does not exist: another may just have made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call


async def look_again(call: Call) -> ApiError | None:
    """Apply all entries in the metadata log; return an error if it cannot be read."""
    try:
        await call.node.follow.catch_up()
    except OSError:
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, "The metadata of the cluster cannot be read now: try again later.")
    return None
