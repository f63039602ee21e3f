"""Runs a topology: records of topics go in one after the other, results and changed entries of stores come out.

Pure: no clock, no file, no random number. The caller brings the records, the batch's number and the time of day,
and carries the results away. A task sees one partition of every topic, or a bucket of keys, as a task of Kafka does.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ottla.streams.engine.ahead import LEFT_OUT, Ahead
from ottla.streams.engine.faults import Faults
from ottla.streams.engine.turns import TopicTurns
from ottla.streams.errors import ProcessingError, SerdeError, TopologyError
from ottla.streams.graph import AnyNode, ProcessorNode, SinkNode, SourceNode, Topology, global_stores
from ottla.streams.on_error import Fault, OnError
from ottla.streams.patterns import SourceOf
from ottla.streams.stores import EntryKey, KeyValueStore, OrderedStore, RowMaker, Store
from ottla.streams.values import Headers, Input, Place, Record

Clock = Literal["stream", "wall"]
_DEFAULT: tuple[int | None, ...] = (None,)
NEWEST = " newest"
"""Follows a store's name in the name of the newest time that the store has seen."""


@dataclass(slots=True, unsafe_hash=True)
class Output:
    """A record for a topic, and the sink that wrote it; `origin` orders the results of one batch.

    `repartition`: the topic is one of the topology's own.
    """

    topic: str
    sink: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    origin: int
    repartition: bool = False
    partition: int | None = None
    """The partition that a partitioner chose; None for that of the key, as Kafka chooses it."""


@dataclass(frozen=True, slots=True)
class Results:
    """The records that a batch made, the entries of stores that it changed, and the records that nodes left out."""

    batch: int
    outputs: tuple[Output, ...]
    changes: dict[str, dict[EntryKey, Any]]
    dropped: dict[str, int]
    faults: tuple[Fault, ...] = ()


@dataclass(slots=True)
class Punctuation:
    """A function that a processor wants called whenever an interval of a clock has passed."""

    clock: Clock
    interval_ms: int
    call: Callable[[int], None]
    name: str
    due: int
    cancelled: bool = False

    def cancel(self) -> None:
        """Call it no more."""
        self.cancelled = True


@dataclass(slots=True)
class Times:
    """Times that nodes have seen, by name; kept with the state, since what is late depends on them."""

    seen: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def raise_to(self, name: str, time: int) -> int:
        """The newest time seen under a name, this one included."""
        newest = max(self.seen.get(name, -1), time)
        self.set(name, newest)
        return newest

    def set(self, name: str, time: int) -> None:
        """Keep a time under a name."""
        if self.seen.get(name) != time:
            self.seen[name] = time
            self.changed.add(name)

    def take(self) -> dict[EntryKey, Any]:
        """The times that changed since the last call."""
        taken: dict[EntryKey, Any] = {(name,): self.seen[name] for name in sorted(self.changed)}
        self.changed.clear()
        return taken


class Context:
    """A processor's view of its task: where to send records, its stores, the time."""

    def __init__(self, task: Task, node: ProcessorNode) -> None:
        self._task = task
        self._node = node
        self.name = node.name

    def forward(self, record: Record, *, to: str | None = None) -> None:
        """Send a record to every node behind this one, or to the one that `to` names."""
        self._task.forward(self.name, record, to)

    def store(self, name: str) -> Any:
        """A store that the node was declared to use."""
        if name not in self._node.stores and name not in self._task.global_names:
            mine = ", ".join(self._node.stores) or "none"
            raise TopologyError(f"{self.name} does not use the store {name} (it uses: {mine}): add it to stores=")
        return self._task.stores[name] if name in self._task.stores else self._task.shared[name]

    def schedule(self, interval_ms: int, call: Callable[[int], None], *, clock: Clock = "stream") -> Punctuation:
        """Have `call(time)` called whenever `interval_ms` of stream time or of the time of day has passed."""
        if interval_ms < 1:
            raise TopologyError(f"{self.name} schedules every {interval_ms} ms: the least is 1 ms")
        return self._task.schedule(self.name, interval_ms, call, clock)

    def process_waited(self, process: Callable[[Record], None], record: Record) -> None:
        """Process a record that has waited in a store; its place is not known any more."""
        self._task.process_waited(self.name, process, record)

    def drop(self) -> None:
        """Count a record that the node leaves out."""
        self._task.dropped[self.name] += 1

    @property
    def place(self) -> Place | None:
        """The place of the record that is being processed; None in a punctuation, and for a record that has waited."""
        read = self._task.read
        return read.place if read else None

    @property
    def piece(self) -> int | None:
        """The number of the piece of a batch that is at work, which is whole; None where batches have no pieces."""
        return self._task.taken if self._task.in_levels else None

    @property
    def stream_time(self) -> int:
        """The newest timestamp that the task has read; -1 before the first record."""
        return self._task.times.seen.get("", -1)

    @property
    def wall_clock_ms(self) -> int:
        """The time of day as the caller gave it."""
        return self._task.wall_clock_ms

    @property
    def times(self) -> Times:
        """Times that are kept with the state."""
        return self._task.times


class Task:
    """One topology at work over its stores, or some sub-topologies of it."""

    def __init__(
        self,
        topology: Topology,
        *,
        sub_topologies: Iterable[int] | None = None,
        loops_back: bool = True,
        in_levels: bool = False,
        wall_clock_ms: int = 0,
        shared: Mapping[str, Store] | None = None,
        on_error: OnError | None = None,
        rows: RowMaker | None = None,
        partitions_of: Callable[[str], int] = lambda _: 1,
    ) -> None:
        """With `loops_back` the task reads at once what it writes to topics of its own; else the caller brings it.

        With `in_levels` the caller brings all that a batch wrote to one of these topics in one piece, up to `take`,
        and behind all that it came from, as a run on Spark does.

        `shared` are the stores of global tables where another task keeps these; else this one keeps them too.
        `rows` makes the rows of stores elsewhere than in memory. `partitions_of` says how many partitions a topic has:
        it is asked once a batch, for sinks with a partitioner.
        """
        wanted = None if sub_topologies is None else set(sub_topologies)
        names = {
            name
            for part in topology.sub_topologies
            if (part.is_global and shared is None) or (not part.is_global and (wanted is None or part.number in wanted))
            for name in part.nodes
        }
        self.topology = topology
        self.stores: dict[str, Store] = {}
        self.shared: Mapping[str, Store] = shared or {}
        self.global_names = global_stores(topology.nodes)
        self.times = Times()
        self.dropped: Counter[str] = Counter()
        self.read: Input | None = None
        """The record that is being processed."""
        self.wall_clock_ms = wall_clock_ms
        self._faults = Faults(on_error or OnError())
        self.in_levels = in_levels
        self.taken = 0
        """The number of pieces whose results were taken."""
        self._loops_back = loops_back
        self._partitions_of = partitions_of
        self._partitions: dict[str, int] = {}
        self._queues: dict[str, deque[Input]] = {}
        self._turns = TopicTurns()
        self._offsets: Counter[str] = Counter()
        self._outputs: list[Output] = []
        self._punctuations: list[Punctuation] = []
        self._source_of = SourceOf(source for source in topology.sources() if source.name in names)
        self._children = {name: tuple(topology.children(name)) for name in topology.nodes if name in names}
        self._processors: dict[str, Any] = {}
        self._make([node for node in topology.nodes.values() if node.name in names], rows)
        self._ahead = Ahead(self._children, self._processors)

    def run(self, batch: int, records: Iterable[Input], *, wall_clock_ms: int = 0) -> Results:
        """Process a batch in the order of timestamps and places, wherever the records came from first."""
        self.wall_clock_ms = max(self.wall_clock_ms, wall_clock_ms)
        for record in sorted(records, key=lambda r: (r.timestamp, r.place.topic, r.place.partition, r.place.offset)):
            self.feed(record)
        self.punctuate_wall_clock()
        return self.take(batch)

    def feed(self, *records: Input) -> None:
        """Process records, each topic's in their order and the earliest first; and all that they send to own topics."""
        for record in records:
            self._source_of.find(record.place.topic)
        if not self._loops_back and len({record.place.topic for record in records}) == 1:
            self.feed_in_order(records)
            return
        for record in records:
            self._enqueue(record)
        self._ahead.take(records, self._source_of)
        self._drain()

    def feed_in_order(self, records: Iterable[Input]) -> int:
        """Process records one after the other, with all that each one sends to own topics; returns how many."""
        assert not self._turns, "nothing waits between two calls"
        read, source_of = list(records), self._source_of
        self._ahead.take(read, source_of)
        for record in read:
            self._read(source_of[record.place.topic], record)
            if self._punctuations:
                self._punctuate("stream", self.times.seen.get("", -1))
            if self._turns:
                self._drain()
        return len(read)

    def advance(self, wall_clock_ms: int) -> None:
        """Move the time of day, and run the punctuations that are due then."""
        if wall_clock_ms < self.wall_clock_ms:
            raise ValueError(f"the time of day cannot go back from {self.wall_clock_ms} to {wall_clock_ms}")
        self.wall_clock_ms = wall_clock_ms
        self.punctuate_wall_clock()

    def punctuate_wall_clock(self) -> None:
        """Run the punctuations of the time of day that are due, and everything that they send."""
        self._punctuate("wall", self.wall_clock_ms)
        self._drain()

    def take(self, batch: int) -> Results:
        """The results since the last call."""
        outputs, self._outputs = tuple(self._outputs), []
        self._partitions.clear()
        self.taken += 1
        changes = {}
        for name, store in self.stores.items():
            changes[name] = store.changes.take()
            if not isinstance(store, KeyValueStore | OrderedStore) and store.newest >= 0:
                self.times.raise_to(name + NEWEST, store.newest)  # may be that of an entry that was not kept
        changes[""] = self.times.take()
        dropped, self.dropped = dict(self.dropped), Counter()
        changed = {name: entries for name, entries in changes.items() if entries}
        return Results(batch, outputs, changed, dropped, self._faults.take())

    def restore(self, changes: dict[str, dict[EntryKey, Any]]) -> None:
        """Take over entries that an earlier task reported as changed."""
        for name, entries in changes.items():
            if name:
                for key, entry in entries.items():
                    self.stores[name].restore(key, entry)
                self.stores[name].changes.take()
            else:
                self.times.seen.update({key[0]: time for key, time in entries.items()})
                for store_name, store in self.stores.items():
                    if not isinstance(store, KeyValueStore | OrderedStore):
                        store.newest = max(store.newest, self.times.seen.get(store_name + NEWEST, -1))
        for punctuation in self._punctuations:
            punctuation.due = self.times.seen.get(punctuation.name, punctuation.due)

    def forward(self, sender: str, record: Record, to: str | None = None) -> None:
        """Hand a record to the nodes behind a node, in the order in which they were added."""
        found = to is None
        for node in self._children[sender]:
            if to is not None and node.name != to:
                continue
            found = True
            if isinstance(node, SinkNode):
                self._write(node, record)
            else:
                self._process(node.name, self._processors[node.name].process, record)
        if not found:
            children = ", ".join(node.name for node in self._children[sender]) or "none"
            raise TopologyError(f"{sender} sends to {to}, which is not behind it (there are: {children})")

    def schedule(self, node: str, interval_ms: int, call: Callable[[int], None], clock: Clock) -> Punctuation:
        """Keep a punctuation; stream time ones begin at multiples of the interval, as in Kafka."""
        due = 0 if clock == "stream" else self.wall_clock_ms + interval_ms
        name = f"{node} {clock} punctuation {len(self._punctuations)}"
        punctuation = Punctuation(clock, interval_ms, call, name, due)
        self._punctuations.append(punctuation)
        if clock == "wall":
            self.times.set(name, due)  # a task that is restored elsewhere goes on with it
        return punctuation

    def process_waited(self, name: str, process: Callable[[Record], None], record: Record) -> None:
        """Process a record that has waited at a node: a failure leaves out that one alone, as in a punctuation."""
        read, self.read = self.read, None
        try:
            self._process(name, process, record)
        finally:
            self.read = read

    def _make(self, nodes: Iterable[AnyNode], rows: RowMaker | None) -> None:
        """Make the processors among these nodes, and the stores that they use."""
        made = [node for node in nodes if isinstance(node, ProcessorNode)]
        for store in dict.fromkeys(store for node in made for store in node.stores):
            self.stores[store] = self.topology.stores[store]()
            if rows is not None:
                self.stores[store].keep_in(rows)
        for node in made:
            processor = node.make()
            self._processors[node.name] = processor
            processor.init(Context(self, node))

    def _process(self, name: str, process: Callable[[Record], None], record: Record) -> None:
        try:
            process(record)
        except (ProcessingError, TopologyError):
            raise
        except Exception as error:
            self._failed(name, error)

    def _failed(self, name: str, error: Exception) -> None:
        """A function of the user's failed: the record goes no further from this node, or the run fails."""
        at = f" for the record at {self.read.place}" if self.read else ""
        self._faults.add("processing", name, f"{name} failed{at}: {type(error).__name__}: {error}", error, self.read)

    def _enqueue(self, record: Input) -> None:
        queue = self._queues.setdefault(record.place.topic, deque())
        queue.append(record)
        if len(queue) == 1:
            self._turns.offer(record.timestamp, record.place.topic)

    def _drain(self) -> None:
        while self._turns:
            topic = self._turns.next()
            queue = self._queues[topic]
            record = queue.popleft()
            if queue:
                self._turns.offer(queue[0].timestamp, topic)
            self._read(self._source_of[record.place.topic], record)
            if self._punctuations:
                self._punctuate("stream", self.times.seen.get("", -1))

    def _read(self, source: SourceNode, record: Input) -> None:
        """Deserialise a record, give it its timestamp, and send it on."""
        self.read = record
        ready = self._ahead.ready(record)
        if ready is None or source.timestamp is not None:
            read = self._deserialised(source, record)
        else:
            read = Record(None, None, record.timestamp, record.headers)
        if read is not None and read.timestamp < 0:
            self.dropped[source.name] += 1
        elif read is not None:
            if not source.global_store:
                self.times.raise_to("", read.timestamp)
            if ready is None:
                self.forward(source.name, read)
            elif ready is not LEFT_OUT:
                key, value = ready
                self.forward(self._ahead.end(source.name), Record(key, value, read.timestamp, read.headers))
        self.read = None

    def _deserialised(self, source: SourceNode, record: Input) -> Record | None:
        """The record with its timestamp, or None if that failed."""
        try:
            value, key = self._ahead.value(source, record), source.key.from_bytes(record.key)
        except SerdeError as error:
            reason = f"{source.name} cannot read the record at {record.place}: {error}"
            self._faults.add("deserialization", source.name, reason, error, record)
            return None
        read = Record(key, value, record.timestamp, record.headers)
        if source.timestamp is None:
            return read
        try:
            return read.with_timestamp(source.timestamp(read, self.times.seen.get("", -1), record.place))
        except Exception as error:
            self._failed(source.name, error)
            return None

    def _write(self, sink: SinkNode, record: Record) -> None:
        """Serialise a record for its sink, and read it again at once if it goes to a topic of our own."""
        topic = sink.topic if isinstance(sink.topic, str) else "the topic that its function names"
        try:
            if not isinstance(sink.topic, str):
                topic = sink.topic(record)
            key, value = sink.key.to_bytes(record.key), sink.value.to_bytes(record.value)
            if record.timestamp < 0:
                raise SerdeError(f"the timestamp {record.timestamp} is negative")
            chosen = _DEFAULT if sink.partitioner is None else sink.chosen(record, self._count(topic))
        except (ProcessingError, TopologyError):
            raise
        except Exception as error:
            why = str(error) if isinstance(error, SerdeError) else f"{type(error).__name__}: {error}"
            where = f" for the record at {self.read.place}" if self.read else ""
            reason = f"{sink.name} cannot write to {topic}{where}: {why}"
            self._faults.add("production", sink.name, reason, error, self.read)
            return
        if not chosen:
            self.dropped[sink.name] += 1
        returns = self._loops_back and self._source_of.reads(topic)
        at, headers = record.timestamp, record.headers
        for partition in chosen:
            if not sink.repartition or not returns:
                origin = len(self._outputs)
                written = Output(topic, sink.name, key, value, at, headers, origin, sink.repartition, partition)
                self._outputs.append(written)
            if returns:
                place = Place(topic, 0, self._offsets[topic])
                self._offsets[topic] += 1
                self._enqueue(Input(place, key, value, at, headers))

    def _count(self, topic: str) -> int:
        """The number of a topic's partitions, the same one for a batch."""
        if topic not in self._partitions:
            self._partitions[topic] = self._partitions_of(topic)
        return self._partitions[topic]

    def _punctuate(self, clock: Clock, now: int) -> None:
        if now < 0:
            return
        for punctuation in self._due(clock, now):
            try:
                punctuation.call(now)
            except (ProcessingError, TopologyError):
                raise
            except Exception as error:
                self._failed(punctuation.name, error)
        self._punctuations = [p for p in self._punctuations if not p.cancelled]

    def _due(self, clock: Clock, now: int) -> Iterator[Punctuation]:
        """Punctuations that are due, once each, however many intervals have passed."""
        for punctuation in sorted((p for p in self._punctuations if p.clock == clock), key=lambda p: p.due):
            if not punctuation.cancelled and punctuation.due <= now:
                missed = (now - punctuation.due) // punctuation.interval_ms
                punctuation.due += (missed + 1) * punctuation.interval_ms
                self.times.set(punctuation.name, punctuation.due)
                yield punctuation
