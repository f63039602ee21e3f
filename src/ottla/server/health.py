"""The health of this broker: what /health answers, and why it does not serve where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.troubles import replicas_in_trouble

if TYPE_CHECKING:
    from ottla.broker.node import Node


class Health(NamedTuple):
    """A broker that does not serve says why in `refusals`; `warnings` name what fails beside that."""

    refusals: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def serves(self) -> bool:
        return not self.refusals

    def text(self) -> str:
        """One line a fact, the state first."""
        lines = ["serving" if self.serves else "not serving"]
        lines += [f"because: {why}" for why in self.refusals]
        lines += [f"warning: {what}" for what in self.warnings]
        return "\n".join(lines) + "\n"


def health(node: Node) -> Health:
    """As of now. A broker that may not lead answers no client, whatever it holds (rule A12)."""
    refusals = []
    me = node.metadata.brokers.get(node.broker)
    if me is None:
        refusals.append("the broker is not registered")
    elif me.fenced:
        refusals.append("the broker is fenced")
    if not node.around.may_lead():
        refusals.append("the lease has ended: the coordination store was not reached in time")
    warnings = [f"log directory {path} has failed" for path in sorted(node.replicas.directories.failed)]
    troubles = replicas_in_trouble(node.replicas, node.metadata)
    warnings += [f"{one.topic}-{one.partition}: {one.reason}" for one in troubles]
    return Health(tuple(refusals), tuple(warnings))
