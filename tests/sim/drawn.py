"""Plans of old seeds as they were drawn before worlds had members of the consumer protocol or of
transforming groups, contested groups, clinging clients, turns, guests, their logins and quotas."""

from __future__ import annotations

from ottla.sim.plan import GUARDED, Plan

_ITS_OPTIONS = (
    "group.consumer.",
    "authorizer.class.name",
    "super.users",
    "sasl.enabled.mechanisms",
    "delegation.token.",
    "connections.max.reauth.ms",
)


def without_what_came_last(plan: Plan) -> Plan:
    """The same world with classic groups of no transactions only, without clients of late leaders, without turns."""
    texts = tuple((name, text) for name, text in plan.broker_texts if not name.startswith(_ITS_OPTIONS))
    topics = tuple(topic for topic in plan.topics if topic.name != GUARDED)
    plan = plan._replace(guests=False, guests_log_in=False, limits_clients=False, topics=topics)
    plan = plan._replace(groups=1, shared_members=2, assigned_members=0, broker_texts=texts)
    if plan.transactions is not None:
        plan = plan._replace(transactions=plan.transactions._replace(members=0, contests=False, late_markers=False))
    return plan._replace(clings=False, turns=False)
