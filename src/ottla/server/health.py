"""The health of this broker: the answer of /health, with the reasons if the broker does not serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.troubles import replicas_in_trouble

if TYPE_CHECKING:
    from ottla.broker.node import Node


class Health(NamedTuple):
    """`refusals` are the reasons why a broker does not serve; `warnings` name further faults."""

    refusals: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def serves(self) -> bool:
        return not self.refusals

    def text(self) -> str:
        """The report: one line for each fact, the state first."""
        lines = ["serving" if self.serves else "not serving"]
        lines += [f"because: {why}" for why in self.refusals]
        lines += [f"warning: {what}" for what in self.warnings]
        return "\n".join(lines) + "\n"


def health(node: Node) -> Health:
    """The broker's present health. A broker whose lease has ended answers no client (rule A12)."""
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
