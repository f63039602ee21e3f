"""The rights of clients here: ACLs of the metadata, decided once for each client and resource until an ACL changes.

Only a broker with `authorizer.class.name` has this part. Brokers of the cluster prove themselves (wire/sasl.py) and are
not asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.access.rules import Decision, Rules
from ottla.kernel.acls import Operation, ResourceKind
from ottla.wire.apis import APIS
from ottla.wire.checks import asked

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.state import Metadata

_MOST_KEPT = 20_000
_MOST_TOLD = 1000
"""The most refusals of a client that the log tells one by one until an ACL changes."""
_Asked = tuple[str, str, Operation, ResourceKind, str]

log = logging.getLogger("ottla.rights")


class Rights:
    """Decisions by the ACLs of the metadata as it is now."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: Callable[[], Metadata],
        audit: Callable[[Mapping[str, object]], None] | None = None,
    ) -> None:
        """`audit` is told of each refusal that the log tells."""
        self._metadata = metadata
        self._audit = audit
        self._super_users = frozenset(one.strip() for one in config.super_users.split(";") if one.strip())
        self._open_without_acl = config.allow_everyone_if_no_acl_found
        self._acls_version = -1
        self._changes = 0
        self._rules = Rules(())
        self._kept: dict[_Asked, Decision] = {}
        self._told: dict[tuple[str, str], set[_Asked]] = {}
        """Refusals that the log has told since the last change, by principal and host."""

    def version(self) -> int:
        """A number that is another one after each change of an ACL."""
        state = self._metadata()
        if state.acls_version != self._acls_version:
            self._acls_version = state.acls_version
            self._changes += 1
            self._rules = Rules(state.acls, super_users=self._super_users, open_without_acl=self._open_without_acl)
            self._kept.clear()
            self._told.clear()
        return self._changes

    def may(self, call: Call, operation: Operation, resource: ResourceKind, name: str, *, told: bool) -> bool:
        """True if the caller may do this. The log tells of a refusal once, unless it only leaves something out."""
        assert (operation, resource) in asked(call.api_key), f"{APIS[call.api_key]} may not ask for {operation!r}"
        question = (call.principal, call.connection.peer_host, operation, resource, name)
        decision = self.decide(*question)
        if not decision.allowed and told:
            self._tell(call, question, decision)
        return decision.allowed

    def _tell(self, call: Call, question: _Asked, decision: Decision) -> None:
        """Log a refusal, each once: a client may ask for the same again and again, or for very many names."""
        principal, host, operation, resource, name = question
        told = self._told.setdefault((principal, host), set())
        if question in told or len(told) > _MOST_TOLD:
            return
        told.add(question)
        if len(told) > _MOST_TOLD:
            log.info("further refusals of %.200r from %s are not logged until an ACL changes", principal, host)
            if self._audit is not None:
                self._audit({"event": "further refusals are not told until an ACL changes", **call.about()})
            return
        log.info(
            "%s of %.200r from %s is refused %s on %s %.200r: %s",
            APIS[call.api_key].name, principal, host, operation.name, resource.name, name, ascii(decision.why),
        )  # fmt: skip
        if self._audit is not None:
            asked_for = {"operation": operation.name, "resource": resource.name, "name": name}
            api = APIS[call.api_key].name
            self._audit({"event": "refused", **call.about(), "api": api, **asked_for, "why": decision.why})

    def may_on_any(self, call: Call, operation: Operation, resource: ResourceKind) -> bool:
        """True if there may be a resource of this type with which the caller may do this."""
        self.version()
        return self._rules.decide_on_any(call.principal, call.connection.peer_host, operation, resource).allowed

    def seen_by(self, principal: str, host: str) -> Callable[[str], bool]:
        """Tells of a topic's name whether this client may know that there is such a topic."""
        return lambda name: self.decide(principal, host, Operation.DESCRIBE, ResourceKind.TOPIC, name).allowed

    def decide(self, principal: str, host: str, operation: Operation, resource: ResourceKind, name: str) -> Decision:
        """The decision, with the ACL that made it."""
        self.version()
        question = (principal, host, operation, resource, name)
        decision = self._kept.get(question)
        if decision is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
                self._told.clear()
            decision = self._kept[question] = self._rules.decide(*question)
        return decision
