"""Decides about ACLs: which ones to add, which ones to remove. The handlers have checked what they say."""

from __future__ import annotations

from ottla.cluster.brokers import ACLS
from ottla.cluster.commands import CreateAcls, DeleteAcls
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata import entries as log
from ottla.metadata.acls import split_acls
from ottla.metadata.state import Metadata

_TOO_OLD = ApiError(ErrorCode.UNSUPPORTED_VERSION, "A broker of an older release is in the cluster: it knows no ACLs.")


def create(command: CreateAcls, state: Metadata) -> list[log.Body] | ApiError:
    """Add those that are not there yet."""
    if state.metadata_version() < ACLS:
        return _TOO_OLD
    new = [acl for acl in dict.fromkeys(command.acls) if acl not in state.acls]
    return [log.AclsAdded(acls=run) for run in split_acls(new)]


def delete(command: DeleteAcls, state: Metadata) -> list[log.Body] | ApiError:
    """Remove all that a filter takes."""
    if state.metadata_version() < ACLS:
        return _TOO_OLD
    gone = [acl for acl in sorted(state.acls) if any(each.takes(acl) for each in command.filters)]
    return [log.AclsRemoved(acls=run) for run in split_acls(gone)]
