"""A seed's draws before its world begins: a swarm of small worlds, each with some of the sizes, options and faults.

What was added later is drawn by a stream of its own, so that the rest of a seed's world stays as it was.
"""

from __future__ import annotations

from random import Random

from ottla.access.mechanisms.scram import SHA_256
from ottla.access.names import ANONYMOUS
from ottla.config.broker_checks import STANDARD_AUTHORIZER
from ottla.sim.plan import (
    AMONG_BROKERS,
    CLASSIC,
    CONSUMER,
    CUT_COORDINATION,
    DRAWN_LAST,
    FAULTS,
    GUARDED,
    KILLED_JOINING,
    OF_DIRECTORIES,
    PARTITION,
    REFUSED,
    REPLICAS,
    TOKEN_MAKER,
    Plan,
    TopicPlan,
    TransactionPlan,
    sessions_end_in_time,
)

_NO_FAULTS_SHARE = 0.1
_DECAYS_SHARE = 0.4
_ROLLS_BACK_SHARE = 0.4
"""The share among worlds without flipped bits: a flipped bit in a copy would go unnoticed."""
_EDITS_REQUIRED_SHARE = 0.2
_SEVERAL_DIRECTORIES_SHARE = 0.25
_TRANSACTIONS_SHARE = 0.4
_MEMBERS_SHARE = 0.5
"""Share of worlds with transactions."""
_CONTESTS_SHARE = 0.5
"""Share of worlds with transactions."""
_LATE_MARKERS_SHARE = 0.5
"""Share of worlds with transactions, faults and several brokers."""
_CONTENDS_SHARE = 0.6
_TURNS_SHARE = 0.8
"""Share of worlds in which brokers are apart, and an administrator moves leaders."""
_CLINGS_SHARE = 0.8
"""Share of worlds in which brokers are cut off from the store."""
_ASSIGNED_SHARE = 0.5
_ONLY_ASSIGNED_SHARE = 0.3
"""The share of those worlds in which no classic group has members."""
_KILLED_JOINING_SHARE = 0.4
_ACCESS_SHARE = 0.25
"""The share of worlds with guests, with quotas, or with both."""
_AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ANONYMOUS}
"""Options of brokers that limit guests, and nobody else."""
_LOGS_IN_SHARE = 0.7
"""Share of worlds with guests."""
_WITH_TOKENS = {
    "super.users": f"{ANONYMOUS};{TOKEN_MAKER}",
    "sasl.enabled.mechanisms": SHA_256,
    "delegation.token.secret.key": "simulated",
}
"""Options of brokers at which guests log in with delegation tokens."""
_AS_IT_COMES_SHARE = 0.2
_SAID_ALWAYS = (
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "group.initial.rebalance.delay.ms",
    "group.min.session.timeout.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "transaction.state.log.num.partitions",
    *_AUTHORIZED,
    *_WITH_TOKENS,
)
_READ_BY_JUDGES = {"broker.session.timeout.ms": "6000", "replica.lag.time.max.ms": "30000"}
"""The values of a world with default options."""


def draw_plan(seed: int, brokers: int = 1) -> Plan:
    """The plan of a seed: a share of clusters has default options, the others have options that make more happen."""
    plan = draw_with_options(seed, brokers)
    as_it_comes = brokers > 1 and Random(f"as-it-comes-{seed}").random() < _AS_IT_COMES_SHARE
    return _as_it_comes(plan) if as_it_comes else plan


def _as_it_comes(plan: Plan) -> Plan:
    """Give every option its default, except for replicas, their cost, and the patience of simulated groups."""
    kept = {name: text for name, text in plan.broker_texts if name in _SAID_ALWAYS} | _READ_BY_JUDGES
    topics = tuple(topic._replace(configs=()) for topic in plan.topics if topic.retained and not topic.cached)
    transactions = plan.transactions
    if transactions is not None:
        transactions = transactions._replace(ledger=transactions.ledger._replace(configs=()))
    return plan._replace(
        topics=topics,
        transactions=transactions,
        session_us=plan.session_us and int(_READ_BY_JUDGES["broker.session.timeout.ms"]) * 1000,
        broker_texts=tuple(sorted(kept.items())),
    )


def draw_with_options(seed: int, brokers: int = 1) -> Plan:
    """The plan of a seed, with drawn options."""
    plan = _draw_alone(Random(f"plan-{seed}"), seed)
    if brokers > 1:
        plan = _draw_more(Random(f"more-{seed}"), _draw_cluster(Random(f"cluster-{seed}"), plan, brokers))
    random = Random(f"transactions-{seed}")
    plan = draw_transactions(random, plan) if random.random() < _TRANSACTIONS_SHARE else plan
    plan = _draw_assigned(Random(f"assigned-{seed}"), plan)
    plan = _draw_members(Random(f"members-{seed}"), plan)
    plan = _draw_contested(Random(f"contested-{seed}"), plan)
    plan = _draw_late_markers(Random(f"late-markers-{seed}"), plan)
    plan = _draw_access(Random(f"access-{seed}"), plan)
    return _draw_logins(Random(f"logins-{seed}"), plan)


def _draw_access(random: Random, plan: Plan) -> Plan:
    """The same world with guests, with quotas, or with both, in a share of all worlds."""
    if random.random() >= _ACCESS_SHARE:
        return plan
    guests, limits = random.choice(((True, False), (False, True), (True, True)))
    plan = plan._replace(limits_clients=limits)
    return with_guests(random, plan) if guests else plan


def with_guests(random: Random, plan: Plan) -> Plan:
    """The same world with a topic for guests, and an authorizer."""
    configs = (("internal.segment.bytes", str(random.choice((1300, 4000, 20_000)))),)
    guarded = TopicPlan(GUARDED, random.randint(1, 2), configs)
    texts = dict(plan.broker_texts) | _AUTHORIZED
    return plan._replace(guests=True, topics=(*plan.topics, guarded), broker_texts=tuple(sorted(texts.items())))


def _draw_logins(random: Random, plan: Plan) -> Plan:
    """The same world with guests that log in, in a share of the worlds with guests."""
    return with_logins(random, plan) if plan.guests and random.random() < _LOGS_IN_SHARE else plan


def with_logins(random: Random, plan: Plan) -> Plan:
    """The same world with guests that log in with delegation tokens; a session may end before its token does."""
    longest = {"connections.max.reauth.ms": str(random.choice((0, 1200, 2500)))}
    texts = dict(plan.broker_texts) | _WITH_TOKENS | longest
    return plan._replace(guests_log_in=True, broker_texts=tuple(sorted(texts.items())))


def _consumer_texts(random: Random) -> dict[str, str]:
    """Options under which groups of the consumer protocol soon expel silent members."""
    return {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(random.choice((1500, 4000))),
        "group.consumer.min.heartbeat.interval.ms": "50",
        "group.consumer.heartbeat.interval.ms": "100",
        "group.consumer.assignment.interval.ms": str(random.choice((0, 500))),
    }


def _draw_members(random: Random, plan: Plan) -> Plan:
    """The same world with a group whose members transform in transactions, if it has transactions."""
    if plan.transactions is None or random.random() >= _MEMBERS_SHARE:
        return plan
    return with_members(random, plan, random.choice((CLASSIC, CONSUMER)))


def _draw_contested(random: Random, plan: Plan) -> Plan:
    """The same world with a group whose offsets are committed in transactions and plainly, if it has transactions."""
    if plan.transactions is None or random.random() >= _CONTESTS_SHARE:
        return plan
    return plan._replace(transactions=plan.transactions._replace(contests=True))


def _draw_late_markers(random: Random, plan: Plan) -> Plan:
    """The same world with delayed markers, if it has transactions, faults and several brokers."""
    if plan.transactions is None or plan.brokers == 1 or not plan.faults or random.random() >= _LATE_MARKERS_SHARE:
        return plan
    return plan._replace(transactions=plan.transactions._replace(late_markers=True))


def with_members(random: Random, plan: Plan, protocol: str) -> Plan:
    """The same world with transforming members of one group."""
    assert plan.transactions is not None
    texts = _consumer_texts(random) | dict(plan.broker_texts)
    transactions = plan.transactions._replace(members=random.randint(2, 3), members_protocol=protocol)
    return plan._replace(transactions=transactions, broker_texts=tuple(sorted(texts.items())))


def _draw_assigned(random: Random, plan: Plan) -> Plan:
    """The same world with members of the consumer protocol, beside those of classic groups or instead of them."""
    if random.random() >= _ASSIGNED_SHARE:
        return plan
    texts = dict(plan.broker_texts) | _consumer_texts(random)
    plan = plan._replace(assigned_members=random.randint(2, 4), broker_texts=tuple(sorted(texts.items())))
    return plan._replace(groups=0, shared_members=0) if random.random() < _ONLY_ASSIGNED_SHARE else plan


def draw_transactions(random: Random, plan: Plan) -> Plan:
    """The same world with transactions, and with coordinators that soon notice a transaction's timeout."""
    texts = dict(plan.broker_texts) | {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(random.choice((200, 1000))),
        "transaction.state.log.num.partitions": str(random.randint(1, 3)),
    }
    configs = (("internal.segment.bytes", str(random.choice((2000, 20_000)))),)
    transactions = TransactionPlan(
        ledger=TopicPlan("ledger", random.randint(1, 4), configs),
        producers=random.randint(1, 2),
        timeout_ms=random.choice(((400, 1500), (1500, 6000))),
        transforms=random.random() < 0.6,
        reads_uncommitted=random.random() < 0.5,
        has_bystander=random.random() < 0.5,
        forsakes=random.random() < 0.3,
    )
    return plan._replace(transactions=transactions, broker_texts=tuple(sorted(texts.items())))


def _draw_cluster(random: Random, plan: Plan, brokers: int) -> Plan:
    """The same load on several brokers, with replicas on three of them."""
    replication = min(REPLICAS, brokers)
    texts = dict(plan.broker_texts) | {
        "offsets.topic.replication.factor": str(replication),
        "min.insync.replicas": str(min(2, replication)),
        "replica.lag.time.max.ms": str(random.choice((1000, 3000, 10_000))),
    }
    session_ms = int(texts["broker.session.timeout.ms"])
    faults = plan.faults and tuple(kind for kind in (*FAULTS, *AMONG_BROKERS) if random.random() < 0.5)
    if plan.faults and Random(f"refused-{plan.seed}").random() < 0.5:  # apart: no other draw changes
        faults += (REFUSED,)
    return plan._replace(
        brokers=brokers,
        replication=replication,
        faults=faults,
        session_us=random.choice((0, session_ms * 1000)),
        broker_texts=tuple(sorted(texts.items())),
    )


def _draw_more(random: Random, plan: Plan) -> Plan:
    """Draw later additions apart, so that the rest of a seed's world is drawn as before."""
    more = tuple(kind for kind in DRAWN_LAST if random.random() < 0.4)
    plan = plan._replace(
        faults=plan.faults and (*plan.faults, *more),
        client_timeout_ms=random.choice((800, 3000)),
        moves_leaders=random.random() < 0.4,
    )
    decays = bool(plan.faults) and Random(f"decays-{plan.seed}").random() < _DECAYS_SHARE
    rolls_back = bool(plan.faults) and not decays and Random(f"rolls-back-{plan.seed}").random() < _ROLLS_BACK_SHARE
    edits_required = Random(f"required-{plan.seed}").random() < _EDITS_REQUIRED_SHARE
    plan = _draw_directories(Random(f"directories-{plan.seed}"), plan)
    if plan.faults and Random(f"joining-{plan.seed}").random() < _KILLED_JOINING_SHARE:
        plan = plan._replace(faults=(*plan.faults, KILLED_JOINING))
    contends = Random(f"contends-{plan.seed}").random() < _CONTENDS_SHARE
    turns = plan.moves_leaders and PARTITION in plan.faults
    turns = turns and Random(f"turns-{plan.seed}").random() < _TURNS_SHARE
    clings = CUT_COORDINATION in plan.faults and Random(f"clings-{plan.seed}").random() < _CLINGS_SHARE
    plan = plan._replace(
        turns=turns,
        clings=clings,
        decays=decays,
        rolls_back=rolls_back,
        edits_required=edits_required,
        contends=contends,
    )
    return plan._replace(watches=sessions_end_in_time(plan))


def _draw_directories(random: Random, plan: Plan) -> Plan:
    if random.random() >= _SEVERAL_DIRECTORIES_SHARE:
        return plan
    return plan._replace(
        faults=plan.faults and (*plan.faults, *OF_DIRECTORIES),
        more_directories=("/more",),
        store_elsewhere=random.random() < 0.5,
    )


def _draw_alone(random: Random, seed: int) -> Plan:
    calm = random.random() < _NO_FAULTS_SHARE
    faults = () if calm else tuple(kind for kind in FAULTS if random.random() < 0.5)
    return Plan(
        seed=seed,
        busy_ms=random.choice((4000, 6000, 9000)),
        healed_within_ms=60_000,
        topics=_topics(random),
        idempotent_producers=random.randint(1, 3),
        plain_producers=random.randint(1, 2),
        readers=random.randint(1, 3),
        groups=1,
        window=random.randint(1, 5),
        value_bytes=random.choice(((8, 30), (8, 120), (100, 260))),
        pause_us=random.choice(((0, 20_000), (1000, 100_000), (20_000, 200_000))),
        network_us=random.choice(((20, 200), (50, 2000), (500, 20_000))),
        sync_us=random.choice(((100, 2000), (1000, 20_000), (5000, 150_000))),
        faults=faults,
        fault_every_ms=random.choice(((100, 800), (300, 2000), (1000, 4000))),
        harsh=random.choice((0.0, 0.3, 1.0)),
        broker_texts=_broker_texts(random),
    )


def _topics(random: Random) -> tuple[TopicPlan, ...]:
    def configs(**more: str) -> tuple[tuple[str, str], ...]:
        texts = {
            "internal.segment.bytes": str(random.choice((1300, 4000, 20_000))),
            "index.interval.bytes": str(random.choice((1, 512, 4096))),
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        if random.random() < 0.3:
            texts["message.timestamp.type"] = "LogAppendTime"
        if random.random() < 0.3:
            texts["compression.type"] = random.choice(("lz4", "gzip", "uncompressed"))
        return tuple(sorted(texts.items()))

    topics = [
        TopicPlan("kept", random.randint(1, 3), configs()),
        TopicPlan("fleeting", random.randint(1, 2), configs(), stable=False),
    ]
    if random.random() < 0.5:
        limit = configs(retention_bytes=str(random.choice((3000, 10_000))), file_delete_delay_ms="500")
        topics.append(TopicPlan("short", 1, limit, retained=False))
    if random.random() < 0.3:
        topics.append(TopicPlan("cached", 1, configs(write_caching="true"), cached=True))
    return tuple(topics)


def _broker_texts(random: Random) -> tuple[tuple[str, str], ...]:
    texts = {
        "offsets.topic.num.partitions": str(random.randint(1, 3)),
        "offsets.topic.segment.bytes": str(1 << 20),
        "group.initial.rebalance.delay.ms": "50",
        "group.min.session.timeout.ms": "500",
        "broker.session.timeout.ms": str(random.choice((1500, 6000))),
        "fetch.max.bytes": str(random.choice((1024, 5000, 1 << 20))),
        "max.incremental.fetch.session.cache.slots": str(random.choice((0, 1, 100))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((300, 2000))),
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((300, 2000))),
        "log.retention.check.interval.ms": str(random.choice((300, 1500))),
    }
    return tuple(sorted(texts.items()))
