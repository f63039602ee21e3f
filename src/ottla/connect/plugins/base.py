"""The contract of a connector. Everything else, from converters to dead letters, is done around it.

A connector is a class that makes tasks; a task reads or writes records in lists. Options arrive as text, as they stand
in the configuration, with `${…}` resolved; `options().parse(config)` gives them their types.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Protocol

from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.records import SinkRecord, SourceRecord
from ottla.jobs.running_async import AsyncJobRun
from ottla.kernel.ids import TopicPartition

Config = Mapping[str, str]
RUNNER: Final = "ottla.runner"
"""The option that says where a connector's tasks run, where a configuration has it."""
SPARK: Final = (
    Option("spark.master", Type.STRING, None, Importance.LOW, "The master of Spark, with ottla.runner=spark."),
    Option("spark.conf", Type.LIST, [], Importance.LOW, "Settings of Spark as NAME=VALUE."),
)
"""The options that each connector has beside its own where it may run on Spark."""
SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]
Offset = tuple[SourcePartition, SourceOffset]
ReadPieces = Callable[[Sequence[Config]], Awaitable[None]]
"""Has Spark's workers run the task of each configuration to its end, side by side. Their records are in Kafka then.

It raises the first fault, and is not broken off by a cancellation.
"""


class OffsetReader(Protocol):
    """The offsets that were kept of one connector."""

    async def read(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """The offset of each partition, None where none was kept."""


class RefusedRecords(ConnectException):
    """Raised by `put`: the task took all records but these, which it will never take.

    With `errors.tolerance=all` only these become dead letters.
    """

    def __init__(self, refused: Sequence[tuple[SinkRecord, Exception]]) -> None:
        super().__init__(f"{len(refused)} records were refused, the first because of: {refused[0][1]}")
        self.refused = tuple(refused)


class SourceTask(ABC):
    """Reads records from elsewhere. All methods run in one event loop.

    `read` is cancelled at an await when the task is to end; what it returns all the same is still sent. `close` follows
    in any case. `commit` may be called while `read` waits.
    """

    async def start(self, offsets: OffsetReader) -> None:  # noqa: B027  # many tasks need nothing here
        """Begin where the offsets say."""

    @abstractmethod
    async def read(self) -> list[SourceRecord] | None:
        """The next records; it waits for some. None ends the task: there is nothing more, ever."""

    @property
    def phase(self) -> str:
        """The phase that the task is in, for its status; empty where it has none. It is asked before each `read`."""
        return ""

    async def commit(self, offsets: Sequence[Offset]) -> None:  # noqa: B027
        """Learn that all records up to these offsets are in Kafka, and the offsets kept."""

    def acknowledged(self, records: Sequence[SourceRecord]) -> None:  # noqa: B027
        """Learn that these records, as `read` gave them, are in Kafka or were left out by `errors.*`.

        It is called at once, long before `commit`: a task whose senders wait for an answer gives it here.
        """

    async def close(self) -> None:  # noqa: B027
        """Give back what the task holds."""


class SinkTask(ABC):
    """Writes records elsewhere. All methods run in one event loop, one after the other."""

    async def open(self, partitions: Collection[TopicPartition]) -> None:  # noqa: B027
        """Learn which partitions come next. Called again whenever they change, after a flush."""

    @abstractmethod
    async def put(self, records: list[SinkRecord]) -> None:
        """Take records. `RetriableException`: they are put again later, all of them."""

    async def flush(self) -> Mapping[TopicPartition, int] | None:
        """Make what was put durable. Then the offsets of all records put are committed, or those returned."""
        return None

    async def close(self) -> None:  # noqa: B027
        """Give back what the task holds."""


class LoadTask(ABC):
    """A sink task that reads the topics itself, and keeps its offsets where it writes."""

    @abstractmethod
    async def run(self, worker: Config, run: AsyncJobRun, on_topics: Callable[[Iterable[str]], None]) -> None:
        """Do the work until `run.ending` is set. `on_topics` is told the topics that were read."""


class Connector(ABC):
    """A connector, without its tasks. No instance is made."""

    kind: ClassVar[Literal["source", "sink"]]
    java_class: ClassVar[str]
    """The class by which configurations name it: Kafka's name where it has the same options."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Further names: classes elsewhere with the same options."""
    version: ClassVar[str]
    runners: ClassVar[tuple[str, ...]] = ("light",)
    """The values of `ottla.runner` that it has, its own choice first: light in the worker, spark where that pays."""
    goes_to_spark: ClassVar[bool] = False
    """True if its task itself runs on Spark where `ottla.runner` says so."""
    free_options: ClassVar[str] = ""
    """A regular expression of options that are not listed one by one: their names have a number or a table in them."""

    @classmethod
    @abstractmethod
    def options(cls) -> ConfigDef:
        """The options of its own."""

    @classmethod
    def all_options(cls) -> list[Option]:
        """Its own options, and those that its runners bring."""
        return [*cls.options(), *(SPARK if "spark" in cls.runners else ())]

    @classmethod
    def against_spark(cls, config: Config) -> str:
        """The reason why a configuration cannot run with `ottla.runner=spark`; empty if it can."""
        return ""

    @classmethod
    def faults(cls, config: Config) -> Mapping[str, str]:
        """Faults of a configuration whose options are fine one by one: option -> sentence."""
        return {}

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """The configurations of its tasks, at most so many. By default one with the connector's own."""
        return [dict(config)]

    @classmethod
    def restarts(cls, error: Exception) -> bool:
        """True if a task that ended by this error may succeed another time."""
        return isinstance(error, RetriableException | OSError) and not isinstance(error, FileNotFoundError)


class SourceConnector(Connector):
    """A connector that reads from elsewhere into topics."""

    kind = "source"
    topic_option: ClassVar[str] = ""
    """The option that names the topic of all its records, or with `.prefix` at its end the beginning of all topics.

    Empty: its configuration does not tell. Callers of REST whom ACLs limit need WRITE on all topics then.
    """

    @classmethod
    @abstractmethod
    def task(cls, config: Config) -> SourceTask:
        """A task from one of the configurations that `tasks` or `pieces` gave."""

    @classmethod
    def pieces(cls, config: Config) -> list[dict[str, str]]:
        """With `ottla.runner=spark`: configurations of tasks that read one piece each, and end.

        It may ask the other side, and block. By default one, with the connector's own.
        """
        return [dict(config)]

    @classmethod
    def task_after_pieces(cls, config: Config, read_pieces: ReadPieces) -> SourceTask | None:
        """With `ottla.runner=spark`: a task of the worker that has pieces read by Spark before it reads on by itself.

        None: there is only `pieces`, again and again.
        """
        return None

    @classmethod
    def pause_s(cls, config: Config) -> float:
        """With `ottla.runner=spark`: the time between two readings of all pieces."""
        return 60.0

    @classmethod
    def exactly_once(cls, config: Config) -> bool | None:
        """True if a task that begins at kept offsets misses no record and reads none again. None: not known."""
        return None

    @classmethod
    def defines_transactions(cls, config: Config) -> bool:
        """True if its records say where transactions end: `transaction.boundary=connector` needs that."""
        return False

    @classmethod
    def check_offsets(cls, config: Config, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Raise `ConfigException` for offsets that somebody wants to set and no task could begin at."""
        raise ConfigException(f"{cls.java_class} does not support changing offsets")


class SinkConnector(Connector):
    """A connector that writes records of topics elsewhere."""

    kind = "sink"

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """The connector's own configuration for each task: they share the partitions as a group."""
        return [dict(config) for _ in range(most)]

    @classmethod
    @abstractmethod
    def task(cls, config: Config) -> SinkTask | LoadTask:
        """A task from one of the configurations that `tasks` gave."""

    @classmethod
    def check_offsets(cls, config: Config) -> None:  # most sinks begin where their group says
        """Raise `ConfigException` if tasks would not begin at offsets that somebody sets for the group."""
