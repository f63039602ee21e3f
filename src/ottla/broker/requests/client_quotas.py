"""The quotas of clients here: their rates at this broker, and the connections that have to wait (KIP-13, KIP-219).

A connection over its quota is answered at once, with the time for which it is not served after that. Brokers of the
cluster have no quotas. Produce and Fetch ask here only where `on_produce` or `on_fetch` says that anybody has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.access.quotas import BucketMeter, Metered, QuotaMeter, Quotas
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.quotas import CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE

if TYPE_CHECKING:
    from ottla.broker.waiting import Deadlines
    from ottla.metadata.state import Metadata
    from ottla.wire.connection import ServerConnection

_SENT = Metered(True, 0)


class Mutations:
    """The partitions that one request makes and deletes, charged to its client (KIP-599).

    `strict` is for versions whose clients know THROTTLING_QUOTA_EXCEEDED; requests of older ones are done, and wait.
    """

    def __init__(self, meter: BucketMeter | None, deadlines: Deadlines, *, strict: bool) -> None:
        self._meter = meter
        self._deadlines = deadlines
        self._strict = strict
        self.wait_ms = 0

    def refusal(self, count: int) -> ApiError | None:
        """Charge a change of so many partitions, or refuse it."""
        if self._meter is None:
            return None
        (limit, bucket), now_ms = self._meter, self._deadlines.now_ms()
        if self._strict and (wait_ms := bucket.wait_ms(limit, now_ms)):
            self.wait_ms = wait_ms
            return ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The quota of {limit:g} changed partitions a second is exceeded: try again in {wait_ms} ms.",
            )
        bucket.take(limit, count, now_ms)
        if not self._strict:
            self.wait_ms = bucket.wait_ms(limit, now_ms)
        return None


class ClientQuotas:
    """Meters by the quotas of the metadata as it is now."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._quotas = Quotas()
        self.on_produce = False
        """True if anybody has a quota of produced bytes."""
        self.on_fetch = False
        """True if anybody has a quota of fetched bytes."""

    def reconcile(self, metadata: Metadata) -> None:
        """Take the quotas as they are now. A connection that waits already waits as long as it was told."""
        self._quotas.reset(metadata.quotas)
        self.on_produce = self._quotas.has(PRODUCER_BYTE_RATE)
        self.on_fetch = self._quotas.has(CONSUMER_BYTE_RATE)

    def producer(self, connection: ServerConnection) -> QuotaMeter | None:
        """The meter of bytes that this client produces; None if it has no quota."""
        return self._meter(PRODUCER_BYTE_RATE, connection)

    def consumer(self, connection: ServerConnection) -> QuotaMeter | None:
        """The meter of bytes that this client fetches; None if it has no quota."""
        return self._meter(CONSUMER_BYTE_RATE, connection)

    def produced(self, connection: ServerConnection, count: int) -> int:
        """Count bytes that a client has produced; the throttle time that the answer tells."""
        meter = self.producer(connection)
        if meter is None:
            return 0
        wait_ms = meter.take(count, self._deadlines.now_ms())
        self._hold(connection, wait_ms)
        return wait_ms

    def fetched(self, connection: ServerConnection, count: int) -> Metered:
        """Count bytes that a client is about to get, or hold them back."""
        meter = self.consumer(connection) if count else None
        if meter is None:
            return _SENT
        taken = meter.take_within(count, self._deadlines.now_ms())
        self._hold(connection, taken.wait_ms)
        return taken

    def mutations(self, connection: ServerConnection, *, strict: bool) -> Mutations:
        """The charge of a request that makes or deletes partitions; `charged` ends it."""
        meter = None
        if self._quotas.has(CONTROLLER_MUTATION_RATE) and connection.peer is None:
            user = connection.principal.removeprefix("User:")
            now_ms = self._deadlines.now_ms()
            meter = self._quotas.bucket(CONTROLLER_MUTATION_RATE, user, connection.client_id or "", now_ms)
        return Mutations(meter, self._deadlines, strict=strict)

    def charged(self, connection: ServerConnection, mutations: Mutations) -> int:
        """The throttle time that the answer tells."""
        self._hold(connection, mutations.wait_ms)
        return mutations.wait_ms

    def _meter(self, key: str, connection: ServerConnection) -> QuotaMeter | None:
        if connection.peer is not None:
            return None
        user = connection.principal.removeprefix("User:")
        return self._quotas.meter(key, user, connection.client_id or "", self._deadlines.now_ms())

    def _hold(self, connection: ServerConnection, wait_ms: int) -> None:
        """Serve no request of the connection for this time; the answer to the one at hand leaves."""
        if wait_ms <= 0 or connection.closed:
            return
        connection.mute()

        def let_go() -> None:
            connection.on_close.remove(deadline.cancel)
            connection.unmute()

        deadline = self._deadlines.after(wait_ms, let_go)
        connection.on_close.append(deadline.cancel)
