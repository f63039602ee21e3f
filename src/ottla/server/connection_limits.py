"""The limits of connections as the options and the quotas of this broker say them now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.access.connection_limits import ConnectionLimits, IpLimits
from ottla.config.connection_limits import ListenerLimits, listener_limits, overrides_of
from ottla.config.security import texts_of

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.kernel.quotas import QuotaEntity


def connection_limits(
    config: Callable[[], BrokerConfig],
    quotas: Callable[[], Mapping[QuotaEntity, Mapping[str, float]]],
    texts: Mapping[str, str],
    listeners: Sequence[str],
    *,
    between_brokers: str,
) -> ConnectionLimits:
    """`texts`: the options of the start, which alone may be about a listener."""

    def of_ips() -> IpLimits:
        overrides = overrides_of(config().max_connections_per_ip_overrides)
        return IpLimits(config().max_connections_per_ip, overrides, quotas())

    return ConnectionLimits(
        lambda: ListenerLimits(config().max_connections, config().max_connection_creation_rate),
        of_ips,
        {name: listener_limits(texts_of(texts, name)) for name in listeners},
        between_brokers=between_brokers,
    )
