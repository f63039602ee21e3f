"""The world of a seed as values: sizes, limits, speeds, the clients, and which faults may come.

drawing.py draws a `Plan`; world.py and workload.py are built from it; faults.py carries its fault mix out.
"""

from __future__ import annotations

from typing import NamedTuple

CUT_COORDINATION = "cut coordination"
PARTITION = "partition"
FAULTS = (
    "power cut",
    "power cut in the middle",
    "kill",
    "clean restart",
    "failed sync",
    "read error",
    "disk full",
    "slow disk",
    "rough coordination",
    CUT_COORDINATION,
    "clock jump",
    "cut connections",
    "slow network",
)
"""Every kind of fault; a seed uses some of them."""
REFUSED = "refused connections"
AMONG_BROKERS = (
    "power cut of all",
    "pause",
    "expired session",
    PARTITION,
    "one-way cut",
)
STALLED = "stalled connections"
DRAWN_LAST = (
    "long pause",
    "slow coordination",
    "lossy network",
    STALLED,
    "lost disk",
)
FLIPPED = "flipped bit"
KILLED_JOINING = "kill while it joins"
"""A replica's broker dies while its leader's proposal that it is in sync is on its way to the store."""
OF_DIRECTORIES = ("failed directory", "lost directory")
"""Faults of worlds whose brokers have several log directories."""
ROLLED_BACK = "rolled-back directory"
STORE_ROLLED_BACK = "rolled-back store"
CLUSTER_FAULTS = (
    *FAULTS, *AMONG_BROKERS, *DRAWN_LAST, REFUSED, KILLED_JOINING, FLIPPED, *OF_DIRECTORIES,
    ROLLED_BACK, STORE_ROLLED_BACK
)  # fmt: skip
"""The same for worlds of several brokers."""
_FENCING_EARLY = ("expired session", "clean restart", REFUSED)
"""Faults after which another broker may coordinate while the lease of the former coordinator is valid."""
_FENCING_EARLY_WHERE_SEEN_AT_ONCE = ("pause", "long pause")
_NO_HINDRANCE = frozenset({"kill", "pause", "long pause", "clock jump"})
"""Faults that do not keep other brokers than the struck one from following."""
_QUICK_US = 60_000
_SETTLED_MS = 500
CLASSIC, CONSUMER = "classic", "consumer"
"""Protocols of groups."""
GUARDED = "guarded"
"""The topic of guests, if there are any."""
TOKEN_MAKER = "User:token-maker"
"""The principal that makes the tokens of guests, if they log in."""
REPLICAS = 3
"""The replicas of a partition, if there are enough brokers."""


class TopicPlan(NamedTuple):
    """A topic as the workload creates it."""

    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...]
    stable: bool = True
    """True if the topic is never deleted."""
    retained: bool = True
    """True if only DeleteRecords removes records."""
    cached: bool = False
    """write.caching=true: a power cut may take records that readers have seen."""


class TransactionPlan(NamedTuple):
    """The transactional clients of a world."""

    ledger: TopicPlan
    """The topic that all of them write to."""
    producers: int
    timeout_ms: tuple[int, int]
    """The bounds of the timeout after which a transaction is aborted."""
    transforms: bool
    """True if one client consumes another topic, and commits the consumed offsets within its transactions."""
    reads_uncommitted: bool
    """True if a reader at read_uncommitted runs beside the one at read_committed."""
    has_bystander: bool
    """True if a producer without transactions writes to the ledger."""
    forsakes: bool
    """True if a producer leaves transactions open, and never comes back."""
    members: int = 0
    """The number of clients that share a group and transform what they consume."""
    members_protocol: str = CLASSIC
    """The protocol of their group: seats.py has both."""
    contests: bool = False
    """True if one client commits a group's offsets in transactions, and another commits plainly for the same group."""
    late_markers: bool = False
    """True if markers are delayed until another coordinator has sent them again."""


class Plan(NamedTuple):
    """One seed's world."""

    seed: int
    busy_ms: int
    """The virtual time of load and faults, before the faults end and all is read."""
    healed_within_ms: int
    """The virtual time, after the faults, in which each partition must take a write and each client must finish."""
    topics: tuple[TopicPlan, ...]
    idempotent_producers: int
    plain_producers: int
    readers: int
    groups: int
    """The number of consumer groups with one member each."""
    window: int
    """The number of batches that an idempotent producer has in flight."""
    value_bytes: tuple[int, int]
    pause_us: tuple[int, int]
    """The bounds of the pause between two requests of one client."""
    network_us: tuple[int, int]
    sync_us: tuple[int, int]
    faults: tuple[str, ...]
    fault_every_ms: tuple[int, int]
    harsh: float
    """The share of power cuts that lose everything un-synced; the others draw a state."""
    broker_texts: tuple[tuple[str, str], ...]
    brokers: int = 1
    replication: int = 1
    """The replicas of each topic, of internal ones too."""
    session_us: int = 0
    """The time between a broker's end and the moment at which others see it."""
    client_timeout_ms: int = 3000
    """The time after which producers give up an answer and ask again, over another connection."""
    moves_leaders: bool = False
    """True if an administrator moves leaders among the in-sync replicas again and again."""
    decays: bool = False
    """True if bits flip in closed segments now and then; the scrub looks for them all the time."""
    rolls_back: bool = False
    """True if log directories, and the metadata store, are copied now and then, and put back later."""
    edits_required: bool = False
    """True if an administrator changes min.insync.replicas, of topics and of all brokers, amid faults."""
    more_directories: tuple[str, ...] = ()
    """The log directories of each broker besides its first; an administrator moves replicas between them."""
    store_elsewhere: bool = False
    """True if no log directory holds the metadata store, so that a broker can do without any of them."""
    contends: bool = False
    """True if members of one group end one another's generations.

    Also, a producer sends in epochs that are over, and a client asks new leaders for the latest offsets.
    """
    turns: bool = False
    """True if a leader that other brokers cannot reach is replaced, and put back before they reach it again."""
    clings: bool = False
    """True if brokers are cut off from the store for longer than their lease, and a client keeps asking them."""
    watches: bool = False
    """True if a client reads a group's commits from the coordinator that it found once, until that refuses."""
    transactions: TransactionPlan | None = None
    shared_members: int = 2
    """The members of the one classic group that they share, if clients contend."""
    assigned_members: int = 0
    """The members of one group of the consumer protocol (KIP-848)."""
    guests: bool = False
    """True if users are granted the use of one topic, and lose it again."""
    limits_clients: bool = False
    """True if an operator changes quotas of clients."""
    guests_log_in: bool = False
    """True if guests log in with delegation tokens, which expire or are ended."""


def sessions_end_in_time(plan: Plan) -> bool:
    """True if no broker takes over from a live one before that one's lease has run out (rule A12)."""
    early = _FENCING_EARLY if plan.session_us else (*_FENCING_EARLY, *_FENCING_EARLY_WHERE_SEEN_AT_ONCE)
    return not any(kind in early for kind in plan.faults)


def keeps_up_ms(plan: Plan) -> int | None:
    """The time beside its leader after which no live replica may lag; None if one may."""
    if plan.brokers == 1 or not set(plan.faults) <= _NO_HINDRANCE or plan.sync_us[1] > _QUICK_US:
        return None
    return int(dict(plan.broker_texts)["replica.lag.time.max.ms"]) + _SETTLED_MS
