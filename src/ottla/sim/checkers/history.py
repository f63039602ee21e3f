"""The events that clients caused and saw, in the order of virtual time: the checkers know nothing else of a run."""

from __future__ import annotations

from typing import NamedTuple

from ottla.sim.checkers.transaction_history import TransactionEvent


class LogKey(NamedTuple):
    """A partition of one life of a topic: a topic created anew under its old name has other logs."""

    topic_id: str
    partition: int


class Traits(NamedTuple):
    """The promises made for a log."""

    name: str
    retained: bool = True
    """True if only DeleteRecords removes records."""
    durable: bool = True
    """True if records that readers have seen survive a power cut (write.caching=false)."""
    kept: bool = True
    """True if the topic is never deleted."""


class Sent(NamedTuple):
    """A batch was sent for the first time."""

    at_us: int
    producer: str
    log: LogKey
    batch: int
    values: tuple[bytes, ...]
    acks: int
    idempotent: bool


class Acknowledged(NamedTuple):
    at_us: int
    producer: str
    log: LogKey
    batch: int
    base_offset: int


class BatchRefused(NamedTuple):
    """A batch was refused for good: none of its tries can have been appended."""

    at_us: int
    producer: str
    log: LogKey
    batch: int
    error: int


class Polled(NamedTuple):
    """One answer of a Fetch with records of one log, as the reader parsed them."""

    at_us: int
    reader: str
    log: LogKey
    asked_offset: int
    records: tuple[tuple[int, bytes], ...]
    """(offset, value)"""


class Bounds(NamedTuple):
    """The bounds that a reader was told of a log; each reader has one fetch in flight at a time."""

    at_us: int
    reader: str
    log: LogKey
    log_start: int
    high_watermark: int
    epoch: int = -1
    """The epoch of the leader that the reader asked; -1 if it named none."""
    broker: int = -1
    """The broker that answered: a follower answers readers too, and may know of more than a new leader."""
    life: int = 0
    """The number of the broker's process: a restarted follower knows only its checkpoint until its leader answers."""


class OutOfRange(NamedTuple):
    """A reader's position, which was below the watermark once, is out of range."""

    at_us: int
    reader: str
    log: LogKey
    position: int


class Unreadable(NamedTuple):
    """An answer cannot be parsed, or the CRC of a batch in it fails."""

    at_us: int
    reader: str
    log: LogKey
    why: str


class DeleteAsked(NamedTuple):
    """DeleteRecords was sent: the log may start anywhere up to `before` from now on."""

    at_us: int
    log: LogKey
    before: int


class DeleteDone(NamedTuple):
    """DeleteRecords was answered: from now on the log starts no earlier."""

    at_us: int
    log: LogKey
    start: int


class CommitAsked(NamedTuple):
    at_us: int
    group: str
    log: LogKey
    offset: int


class CommitDone(NamedTuple):
    at_us: int
    group: str
    log: LogKey
    offset: int


class CommitSeen(NamedTuple):
    """OffsetFetch answered; -1: nothing is committed."""

    asked_us: int
    at_us: int
    group: str
    log: LogKey
    offset: int


class Generation(NamedTuple):
    """SyncGroup was answered: a generation of a group has begun, and every one before it has ended."""

    at_us: int
    group: str
    generation: int


class CommittedIn(NamedTuple):
    """A commit of a member was taken in this generation."""

    asked_us: int
    at_us: int
    group: str
    generation: int


class LatestSeen(NamedTuple):
    """ListOffsets answered with the latest offset of a log, in an epoch."""

    asked_us: int
    at_us: int
    log: LogKey
    epoch: int
    offset: int


class Outdated(NamedTuple):
    """A batch is sent in an older epoch than its producer has in the log: it must be refused."""

    at_us: int
    producer: str
    log: LogKey
    batch: int


class Admitted(NamedTuple):
    """Every broker knows that a guest may read and write a topic. Its two clients bear its name."""

    at_us: int
    guest: str
    topic_id: str


class Dismissing(NamedTuple):
    """The request that takes a guest's rights away is about to be sent."""

    at_us: int
    guest: str


class Dismissed(NamedTuple):
    """Every broker knows that a guest may neither read nor write, and nothing is under way that grants it again."""

    at_us: int
    guest: str


class TokenGiven(NamedTuple):
    """A guest was given a delegation token, which every broker knows."""

    at_us: int
    guest: str
    token_id: str
    expires_ms: int
    """By the wall clock of any broker."""


class TokenEnding(NamedTuple):
    """The request that ends a token before its time is about to be sent."""

    at_us: int
    token_id: str


class TokenEnded(NamedTuple):
    """Every broker knows that a token was ended."""

    at_us: int
    token_id: str


class LoggedIn(NamedTuple):
    """A guest has logged in on a connection, for the first time or again, which begins a session."""

    at_us: int
    session: str
    token_id: str
    asked_us: int
    """The time at which the login began."""
    proved_us: int
    """The time at which the client sent its proof."""
    wall_ms: int | None
    """The wall clock of the broker at that time; None if it was set before the answer came."""
    lifetime_ms: int
    """The life of the session, as the broker told it, from the moment at which the proof reached it."""


class LoginRefused(NamedTuple):
    at_us: int
    guest: str
    token_id: str
    latest_ms: int
    """A time that no broker's wall clock has passed so far."""
    error: int


class Served(NamedTuple):
    """A request of a guest, sent in a session, was answered; those of logins are left out."""

    at_us: int
    session: str
    sent_us: int


class SessionEnded(NamedTuple):
    """A guest lost its connection, and the broker had ended the session."""

    at_us: int
    session: str


class TopicDeleted(NamedTuple):
    """A deletion was sent: the topic's logs may be gone from now on."""

    at_us: int
    topic_id: str


class Disturbed(NamedTuple):
    """A fault happened."""

    at_us: int
    what: str


class Healed(NamedTuple):
    """The end of the faults; every partition must accept a write within `within_us`.

    Only a broker that has lost a log directory is still killed, to start again.
    """

    at_us: int
    within_us: int


class Alive(NamedTuple):
    """After healing, an acknowledged write to a partition of the cluster."""

    at_us: int
    log: LogKey


class TransactionsEnded(NamedTuple):
    """After healing, no transaction is open in a log any more."""

    at_us: int
    log: LogKey


class Scanned(NamedTuple):
    """The final read of a whole log, from its start to its end."""

    at_us: int
    log: LogKey
    start: int
    end: int
    records: tuple[tuple[int, bytes], ...]


class Failed(NamedTuple):
    """The broker failed in a way that no fault explains."""

    at_us: int
    what: str
    kind: str = "failed"


Event = (
    Sent
    | Acknowledged
    | BatchRefused
    | Polled
    | Bounds
    | OutOfRange
    | Unreadable
    | DeleteAsked
    | DeleteDone
    | CommitAsked
    | CommitDone
    | CommitSeen
    | Generation
    | CommittedIn
    | LatestSeen
    | Outdated
    | Admitted
    | Dismissing
    | Dismissed
    | TokenGiven
    | TokenEnding
    | TokenEnded
    | LoggedIn
    | LoginRefused
    | Served
    | SessionEnded
    | TopicDeleted
    | Disturbed
    | Healed
    | Alive
    | TransactionsEnded
    | Scanned
    | Failed
    | TransactionEvent
)


class Anomaly(NamedTuple):
    """A promise that was not kept."""

    kind: str
    what: str


class History:
    """The events of one run, and what was promised for each log."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.traits: dict[LogKey, Traits] = {}
        self.replicated = False
        """True if the logs have several replicas."""
        self.repaired_within_us = 0
        """Additional time that clients may take to finish if bits flip."""

    def add(self, event: Event) -> None:
        self.events.append(event)

    def traits_of(self, log: LogKey) -> Traits:
        return self.traits.get(log, Traits(log.topic_id))

    def name(self, log: LogKey) -> str:
        return f"{self.traits_of(log).name}-{log.partition}"
