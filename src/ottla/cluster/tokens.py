"""Decides about delegation tokens (KIP-48): new ones, and until when they are good. No secret comes here."""

from __future__ import annotations

from ottla.cluster.brokers import DELEGATION_TOKENS
from ottla.cluster.token_commands import ChangeToken, CreateToken
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata import entries as log
from ottla.metadata.state import Metadata
from ottla.metadata.tokens import token_set

_FORGOTTEN_AT_ONCE = 1000
_TOO_OLD = ApiError(
    ErrorCode.UNSUPPORTED_VERSION, "A broker of an older release is in the cluster: it knows no delegation tokens."
)


def create(command: CreateToken, state: Metadata) -> list[log.Body] | ApiError:
    """Add the token. Expired ones go at the same time, so that they do not pile up."""
    if state.metadata_version() < DELEGATION_TOKENS:
        return _TOO_OLD
    now_ms = command.token.issued_ms
    expired = [token_id for token_id, token in state.tokens.items() if token.has_expired(now_ms)]
    entries: list[log.Body] = [token_set(command.token)]
    if expired:
        entries.append(log.DelegationTokensRemoved(token_ids=sorted(expired)[:_FORGOTTEN_AT_ONCE]))
    return entries


def change(command: ChangeToken, state: Metadata) -> list[log.Body] | ApiError:
    """Renew a token, or let it expire. To end it at once is allowed for one that has expired, too, as in Kafka."""
    token = state.tokens.get(command.token_id)
    if token is None:
        return ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    expired = ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED) if token.has_expired(command.now_ms) else None
    if command.renews and expired is not None:
        return expired
    if not token.is_of(command.by):
        return ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if command.until_ms is None:
        return [log.DelegationTokensRemoved(token_ids=[command.token_id])]
    if expired is not None:
        return expired
    return [token_set(token._replace(expires_ms=min(command.until_ms, token.max_ms)))]
