"""Small worlds full of given faults, under given circumstances, until one shows an anomaly."""

from __future__ import annotations

from random import Random

from tests.sim.drawn import without_what_came_last

from ottla.sim.drawing import draw_transactions, draw_with_options, with_guests, with_logins, with_members
from ottla.sim.plan import CLASSIC, CONSUMER, Plan
from ottla.sim.world import World


def _leaders_move(plan: Plan) -> Plan:
    """Leaders are moved, and a replica that lags for a second leaves the in-sync set."""
    return _with_options(plan._replace(moves_leaders=True), replica_lag_time_max_ms=1000)


def _impatient(plan: Plan) -> Plan:
    """Leaders drop a replica that lags for a moment from the in-sync set."""
    return _with_options(plan, broker_session_timeout_ms=6000, replica_lag_time_max_ms=400)


def _with_options(plan: Plan, **options: int) -> Plan:
    texts = dict(plan.broker_texts) | {name.replace("_", "."): str(value) for name, value in options.items()}
    return plan._replace(broker_texts=tuple(sorted(texts.items())))


def _watched_commits(plan: Plan) -> Plan:
    """Watchers with short sessions that end in time; other clients do little."""
    plan = plan._replace(watches=True, busy_ms=12_000, session_us=1_500_000, groups=0, fault_every_ms=(1500, 3500))
    plan = plan._replace(idempotent_producers=1, plain_producers=1, readers=1)
    plan = plan._replace(sync_us=(200, 4000), pause_us=(20_000, 200_000))
    return _with_options(plan, broker_session_timeout_ms=1500)


def _little_lag(plan: Plan) -> Plan:
    """A replica that lags for a second leaves the in-sync set; a pause ends no session."""
    plan = plan._replace(busy_ms=8000, session_us=6_000_000, fault_every_ms=(1000, 2500))
    return _with_options(plan, broker_session_timeout_ms=6000, replica_lag_time_max_ms=1000)


def _one_log(plan: Plan) -> Plan:
    """One partition and no groups, so that more happens to it, for longer."""
    kept = plan.topics[0]._replace(partitions=1)
    return plan._replace(busy_ms=9000, groups=0, topics=(kept,), sync_us=(500, 8000), pause_us=(500, 20_000))


def _few_writes(plan: Plan) -> Plan:
    """Few clients write, so that a delayed batch is often the last for a while."""
    return plan._replace(busy_ms=9000, groups=0, sync_us=(500, 8000), pause_us=(100_000, 500_000))


def _decay(plan: Plan) -> Plan:
    """Logs of many small closed segments."""
    kept = plan.topics[0]._replace(partitions=1, configs=(("internal.segment.bytes", "1300"),))
    return plan._replace(decays=True, busy_ms=9000, topics=(kept,), sync_us=(500, 8000), pause_us=(500, 20_000))


def _edits_required(plan: Plan) -> Plan:
    """One partition whose min.insync.replicas is edited, and brokers whose death is noticed soon."""
    kept = plan.topics[0]._replace(partitions=1)
    plan = plan._replace(edits_required=True, busy_ms=12_000, groups=0, topics=(kept,), session_us=0)
    return _with_options(plan, broker_session_timeout_ms=1500, replica_lag_time_max_ms=1000)


def _several_directories(plan: Plan) -> Plan:
    """Two log directories, of which a broker may lose either; replicas move all the time."""
    kept = plan.topics[0]._replace(partitions=2)
    plan = plan._replace(more_directories=("/more",), store_elsewhere=True, busy_ms=9000, groups=0, topics=(kept,))
    return plan._replace(sync_us=(500, 8000))


def _rolled_back(plan: Plan) -> Plan:
    """One partition, and older copies of disks that are put back again and again."""
    kept = plan.topics[0]._replace(partitions=1)
    return plan._replace(rolls_back=True, busy_ms=12_000, groups=0, topics=(kept,), session_us=0, sync_us=(500, 8000))


def _snapshots(plan: Plan) -> Plan:
    """One partition, brokers that run for long, and copies of their disks from the same run that are put back."""
    kept = plan.topics[0]._replace(partitions=1)
    plan = plan._replace(rolls_back=True, busy_ms=20_000, groups=0, topics=(kept,), sync_us=(500, 8000))
    return plan._replace(fault_every_ms=(1500, 3000), pause_us=(5000, 60_000), session_us=3_000_000)


def _often_aged(plan: Plan) -> Plan:
    """One partition of many small segments, which retention looks at all the time."""
    kept = plan.topics[0]._replace(partitions=1, configs=(("internal.segment.bytes", "1300"),))
    plan = plan._replace(busy_ms=3000, groups=0, topics=(kept,), sync_us=(500, 8000), pause_us=(500, 20_000))
    return _with_options(plan, log_retention_check_interval_ms=300)


def _transactions(plan: Plan) -> Plan:
    """Transactions, and few other writes."""
    plan = plan._replace(idempotent_producers=1, plain_producers=1, readers=1, groups=0, busy_ms=6000)
    plan = draw_transactions(Random(f"transactions-{plan.seed}"), plan._replace(sync_us=(500, 8000)))
    assert plan.transactions is not None
    ledger = plan.transactions.ledger._replace(partitions=3)
    return plan._replace(transactions=plan.transactions._replace(producers=2, transforms=True, ledger=ledger))


def _classic_members(plan: Plan) -> Plan:
    """Transactions of the members of a classic group, and few others."""
    return _members(plan, CLASSIC)


def _consumer_members(plan: Plan) -> Plan:
    """Transactions of the members of a group of the consumer protocol, and few others."""
    return _members(plan, CONSUMER)


def _members(plan: Plan, protocol: str) -> Plan:
    plan = with_members(Random(f"members-{plan.seed}"), _transactions(plan), protocol)
    assert plan.transactions is not None
    transactions = plan.transactions._replace(members=3, producers=1, forsakes=False, transforms=False)
    return plan._replace(transactions=transactions, busy_ms=9000)


def _contested_offsets(plan: Plan) -> Plan:
    """Transactions, and a group whose offsets are committed in transactions and plainly."""
    plan = _transactions(plan)
    assert plan.transactions is not None
    return plan._replace(transactions=plan.transactions._replace(contests=True))


def _late_markers(plan: Plan) -> Plan:
    """Transactions, and markers that arrive after those of the next coordinator."""
    plan = _transactions(plan)
    assert plan.transactions is not None
    return plan._replace(transactions=plan.transactions._replace(late_markers=True))


def _guests(plan: Plan) -> Plan:
    """Guests of one topic, to which few others write."""
    plan = with_guests(Random(f"guests-{plan.seed}"), plan._replace(topics=(), groups=0, busy_ms=9000))
    plan = plan._replace(idempotent_producers=1, plain_producers=1, readers=1, pause_us=(20_000, 120_000))
    return plan._replace(sync_us=(200, 4000), value_bytes=(8, 30))


def _guests_who_log_in(plan: Plan) -> Plan:
    """Guests whose sessions and tokens end."""
    return with_logins(Random(f"logins-{plan.seed}"), _guests(plan))


CIRCUMSTANCES = {
    "guests": _guests,
    "guests who log in": _guests_who_log_in,
    "few writes": _few_writes,
    "one log": _one_log,
    "leaders moved": _leaders_move,
    "impatient leaders": _impatient,
    "watched commits": _watched_commits,
    "little lag": _little_lag,
    "decay": _decay,
    "edits required": _edits_required,
    "several directories": _several_directories,
    "rolled back": _rolled_back,
    "snapshots": _snapshots,
    "often aged": _often_aged,
    "transactions": _transactions,
    "contested offsets": _contested_offsets,
    "late markers": _late_markers,
    "members of a classic group": _classic_members,
    "members of a consumer group": _consumer_members,
}


def first_shown(brokers: int, first: int, count: int, faults: tuple[str, ...]) -> list[str]:
    """Run small worlds full of the faults, each of which needs the safeguard; the first red one's seed and kinds."""
    for seed in range(first, first + count):
        if kinds := anomalies(seed, brokers, faults):
            return [str(seed), *kinds]
    return []


def anomalies(seed: int, brokers: int, faults: tuple[str, ...]) -> list[str]:
    """The kinds of the anomalies that the seed's world shows, under the given faults and circumstances."""
    plan = without_what_came_last(draw_with_options(seed, brokers))._replace(
        client_timeout_ms=3000,
        moves_leaders=False,
        decays=False,
        rolls_back=False,
        edits_required=False,
        more_directories=(),
        watches=False,
        contends=False,
        transactions=None,
        busy_ms=3000,
        groups=4,
        healed_within_ms=12_000 if brokers == 1 else 30_000,
        faults=tuple(name for name in faults if name not in CIRCUMSTANCES),
        fault_every_ms=(150, 700),
        pause_us=(1000, 60_000),
        sync_us=(2000, 60_000),
        value_bytes=(100, 260),
        harsh=0.5,
    )
    for name in faults:
        plan = CIRCUMSTANCES[name](plan) if name in CIRCUMSTANCES else plan
    return sorted({anomaly.kind for anomaly in World(plan).run().anomalies})
