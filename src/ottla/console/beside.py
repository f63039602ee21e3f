"""The credential that a registry and workers are shown of a user, and sentences where they refuse that user."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from ottla.client.oauth import TokenUnavailable
from ottla.client.registry_client import RegistryRefusal
from ottla.client.security import Security
from ottla.console.links import LinkRefused
from ottla.console.provider import UserTokens
from ottla.web.credentials import REFUSED, Credential, NoCredential, basic, bearer

HTTPS_ALONE = (
    "passwords and tokens go to other machines by https alone; give its https URL, or start the console with --insecure"
)

T = TypeVar("T")


def credential_of(user: str, security: Security, tokens: UserTokens | None, *, insecure: bool) -> Credential:
    """The credential of a user who has logged in: the one by which the user's own clients log in at the brokers."""
    name = f"User:{user}"
    if tokens is not None:
        return Credential(name, "token", lambda: bearer(_access_token(tokens)), insecure, HTTPS_ALONE)
    return Credential(name, "password", lambda: basic(security.user, security.password), insecure, HTTPS_ALONE)


def own_credential(found: Credential, variables: str, *, insecure: bool) -> Credential:
    """The credential of a console at which nobody logs in: `found` in the environment, in these variables."""
    if found.authorization is None:
        return replace(
            found, advice=f"set {variables} in the console's environment, or have its users log in by --login"
        )
    return replace(found, in_the_clear=insecure, advice=HTTPS_ALONE)


async def unless_refused(asked: Awaitable[T], otherwise: T, faults: list[str]) -> T:
    """The answer of a server; `otherwise` where it refuses the user, and one sentence more in `faults`."""
    try:
        return await asked
    except (LinkRefused, RegistryRefusal) as fault:
        if fault.status not in REFUSED:
            raise
        if str(fault) not in faults:
            faults.append(str(fault))
        return otherwise


def _access_token(tokens: UserTokens) -> str:
    try:
        return tokens("")[0]
    except TokenUnavailable as fault:
        raise NoCredential(str(fault)) from None
