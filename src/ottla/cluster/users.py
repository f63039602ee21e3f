"""Decides about users: the keys of their passwords (KIP-554). No password comes here."""

from __future__ import annotations

from ottla.cluster.brokers import SECURITY
from ottla.cluster.commands import AddFirstUsers, EditScramKeys
from ottla.kernel.credentials import ScramKeys
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata import entries as log
from ottla.metadata.state import Metadata


def edit_scram_keys(command: EditScramKeys, state: Metadata) -> list[log.Body] | ApiError:
    """Set or remove one user's keys for one mechanism."""
    if state.metadata_version() < SECURITY:
        return _too_old()
    kept = state.scram.get((command.user, command.mechanism))
    if command.keys is None:
        if kept is None:
            return ApiError(
                ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist: " + command.user
            )
        return [log.ScramKeysRemoved(user=command.user, mechanism=command.mechanism)]
    if kept == command.keys:
        return []
    return [_keys_set(command.user, command.mechanism, command.keys)]


def add_first_users(command: AddFirstUsers, state: Metadata) -> list[log.Body] | ApiError:
    """Set the keys of users if nobody has any: all of them, or none."""
    if state.metadata_version() < SECURITY:
        return _too_old()
    return [] if state.scram else [_keys_set(*each) for each in command.keys]


def _keys_set(user: str, mechanism: int, keys: ScramKeys) -> log.Body:
    return log.ScramKeysSet(
        user=user,
        mechanism=mechanism,
        salt=keys.salt,
        iterations=keys.iterations,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
    )


def _too_old() -> ApiError:
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, "A broker of an older release is in the cluster: it knows no users.")
