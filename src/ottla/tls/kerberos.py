"""Contexts of Kerberos, by the extra `kerberos`: the broker's by its key, a client's by a ticket."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class KerberosMissing(ValueError):
    """The library for Kerberos is not installed."""


class KerberosFault(Exception):
    """Kerberos says no; the text is its own."""


class KerberosContext:
    """One side of an exchange. Calls may wait for a disk or a server of Kerberos: not for an event loop."""

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        with _told():
            return self._context.step(token or None) or b""

    def wrap(self, data: bytes) -> bytes:
        with _told():
            found: bytes = self._context.wrap(data, False).message
            return found

    def unwrap(self, data: bytes) -> bytes:
        with _told():
            found: bytes = self._context.unwrap(data).message
            return found


def accepting(principal: str, keytab: str) -> KerberosContext:
    """The broker's side, by its key in a file."""
    gssapi = _library()
    with _told():
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        mechanisms = [gssapi.MechType.kerberos]  # and no SPNEGO in front of it
        creds = gssapi.Credentials(name=name, usage="accept", mechs=mechanisms, store={"keytab": keytab})
        return KerberosContext(gssapi.SecurityContext(creds=creds, usage="accept"))


def initiating(service: str, host: str, principal: str, keytab: str) -> KerberosContext:
    """A client's side: by its key in a file, or where `keytab` is empty by the tickets of `kinit`."""
    gssapi = _library()
    with _told():
        target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        own = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
        store = {"client_keytab": keytab, "ccache": f"MEMORY:ottla-{principal}"} if keytab else None
        mechanism = gssapi.MechType.kerberos
        creds = gssapi.Credentials(name=own, usage="initiate", mechs=[mechanism], store=store)
        flags = [gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity]
        return KerberosContext(
            gssapi.SecurityContext(name=target, creds=creds, mech=mechanism, usage="initiate", flags=flags)
        )


def _library() -> Any:
    try:
        import gssapi
        import gssapi.exceptions
    except ImportError:
        raise KerberosMissing("GSSAPI needs libkrb5-dev and a compiler, then pip install 'ottla[kerberos]'") from None
    return gssapi


@contextlib.contextmanager
def _told() -> Iterator[None]:
    exceptions = _library().exceptions
    try:
        yield
    except (exceptions.GSSError, exceptions.GeneralError) as fault:
        raise KerberosFault(" ".join(str(fault).split())) from None
