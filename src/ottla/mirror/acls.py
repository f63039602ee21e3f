"""ACLs of mirrored topics at the target, by MirrorMaker 2's rules: nobody may write there, and none is ever removed.

Which rules go over is pure; `MirroredAcls` asks the two clusters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.client.admin.acls import create_acls, describe_acls
from ottla.client.aio.cluster import Cluster
from ottla.kernel.acls import WILDCARD, Acl, AclFilter, Operation, PatternType, Permission, ResourceKind
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.mirror.options import FlowSettings
from ottla.mirror.topics import chosen

_OF_TOPICS = AclFilter(resource=ResourceKind.TOPIC)
_UNCHANGED_BY_WAITING = (ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
log = logging.getLogger("ottla.mirror")


def mirrored(flow: FlowSettings, acls: Iterable[Acl]) -> list[Acl]:
    """The rules that the target gets: those of mirrored topics by name, where only the mirror writes.

    A permission to write stays behind, and one for everything becomes one to read. A rule for a prefix or for all
    topics stays behind, too: it would hold for topics of the target that are no mirrors.
    """
    found: dict[Acl, None] = {}
    for acl in acls:
        if acl.pattern is not PatternType.LITERAL or acl.name == WILDCARD or not chosen(flow, [acl.name]):
            continue
        allowed = acl.operation if acl.permission is Permission.ALLOW else None
        if allowed is Operation.WRITE:
            continue
        operation = Operation.READ if allowed is Operation.ALL else acl.operation
        name = flow.policy.remote_topic(flow.source.alias, acl.name)
        found[acl._replace(name=name, operation=operation)] = None
    return list(found)


class MirroredAcls:
    """Keeps the target's rules in step, as long as both clusters have any and let this user look at them."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster) -> None:
        self.flow, self.source, self.target = flow, source, target
        self._known: set[Acl] = set()
        self._told = ""

    async def sync(self) -> None:
        """Make the rules of mirrored topics at the target; those that are there stay as they are."""
        try:
            wanted = mirrored(self.flow, await self.source.run(describe_acls(self.source.plan, _OF_TOPICS)))
        except ApiError as fault:
            self._tell("read at the source", fault)
            return
        try:
            if wanted:
                await self.target.run(create_acls(self.target.plan, wanted))
        except ApiError as fault:
            self._tell("made at the target", fault)
            return
        if new := set(wanted) - self._known:
            log.info("%s: %d ACLs of mirrored topics are at the target now", self.flow.name, len(new))
        self._known = set(wanted)

    def _tell(self, what: str, fault: ApiError) -> None:
        """Log a refusal; one that stays is told once."""
        text, level = f"ACLs cannot be {what}: {fault.message}", logging.WARNING
        if fault.code is ErrorCode.SECURITY_DISABLED and not self._known:
            text, level = f"no ACLs can be {what}, as it has no authorizer", logging.INFO
        if text != self._told or fault.code not in _UNCHANGED_BY_WAITING:
            log.log(level, "%s: %s", self.flow.name, text)
        self._told = text
