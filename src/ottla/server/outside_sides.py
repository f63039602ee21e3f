"""Mechanisms of a listener whose users others know: an identity provider (OAUTHBEARER), Kerberos (GSSAPI)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.access.mechanisms.base import ServerSide
    from ottla.config.kerberos import KerberosSettings
    from ottla.config.security import ListenerSecurity


def outside_sides(security: ListenerSecurity) -> Mapping[str, Callable[[], ServerSide]]:
    """The broker's side of each, by name. ValueError where its library, its keys or its rules are no good."""
    found: dict[str, Callable[[], ServerSide]] = {}
    if security.oauth is not None:
        from ottla.access.mechanisms.oauthbearer import NAME, OauthBearerServer
        from ottla.jobs.token_keys import TokenKeys

        keys = TokenKeys(security.oauth)
        keys.begin()
        found[NAME] = partial(OauthBearerServer, keys.judge)
    if security.kerberos is not None:
        found["GSSAPI"] = _kerberos(security.kerberos)
    return found


def _kerberos(settings: KerberosSettings) -> Callable[[], ServerSide]:
    from ottla.access.kerberos_names import short_names
    from ottla.access.mechanisms.gssapi import GssapiServer
    from ottla.tls.kerberos import KerberosFault, accepting

    names = short_names(settings.rules, settings.realm)
    begin = partial(accepting, settings.principal, settings.keytab)
    try:
        begin()
    except KerberosFault as fault:
        raise ValueError(
            f"GSSAPI: the key of {settings.principal} in {settings.keytab} cannot be used: {fault}"
        ) from None
    return lambda: GssapiServer(begin, names)
