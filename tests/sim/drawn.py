"""Plans of seeds as they were drawn before worlds had members of the consumer protocol, and clinging clients."""

from __future__ import annotations

from ottla.sim.plan import Plan

_ITS_OPTIONS = "group.consumer."


def without_what_came_last(plan: Plan) -> Plan:
    """The same world with the members of classic groups alone, and with nobody who stays with late leaders."""
    texts = tuple((name, text) for name, text in plan.broker_texts if not name.startswith(_ITS_OPTIONS))
    return plan._replace(groups=1, shared_members=2, assigned_members=0, broker_texts=texts, clings=False)
